"""The folder for Tune's own state, of which nothing is needed after a launch.

The driver holds a lock on it, so the next launch knows which folders a killed one has left, and removes them.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX, _LOCK = "permafrost-tune-", "lock"


@contextmanager
def tune_folder() -> Iterator[Path]:
    """A new folder among the temporary files, removed afterwards; those of killed drivers are removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (left / _LOCK).open("r+") as lock:  # another user's cannot be opened
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / f".{_LOCK}").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / f".{_LOCK}").rename(folder / _LOCK)  # only now: until it is held anyone could take it
            yield folder

"""A cache on disk that the workers of a node share, with a bound on its size.

    <cache>/<kind>/<key>/...      `prefix`: states of frozen layers; `tokens`: encoded corpora

A folder records the boot id of its creation, since a crash of the machine may lose bytes that a file seems to have.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from trials.sources.cache import cache_root, locked

BYTES_VARIABLE = "PERMAFROST_NODE_BYTES"
MOST_BYTES = 32 << 30
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def node_folder(kind: str, key: str, n_bytes: int) -> Path:
    """The folder of a key, created if necessary; others are evicted, the least recently used first, to make room.

    Raises:
        OSError: it cannot be created, or `n_bytes` exceed the limit.
    """
    root = cache_root() / kind
    folder = root / key
    with locked(root / ".lock"):
        if (folder / "boot").exists() and (folder / "boot").read_text(encoding="ascii") != _boot():
            shutil.rmtree(folder, ignore_errors=True)
        _make_room(root, n_bytes, keep=folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "boot").write_text(_boot(), encoding="ascii")
        os.utime(folder)
    return folder


def existing_folder(kind: str, key: str) -> Path | None:
    """The folder of a key, if it was created since the machine booted; else None."""
    folder = cache_root() / kind / key
    try:
        return folder if (folder / "boot").read_text(encoding="ascii") == _boot() else None
    except OSError:
        return None


def allowed_bytes(root: Path) -> int:
    """Size limit of all folders of a kind: $PERMAFROST_NODE_BYTES, else half of the free disk, at most 32 GiB."""
    given = os.environ.get(BYTES_VARIABLE, "")
    return int(given) if given.isdigit() else min(MOST_BYTES, shutil.disk_usage(root).free // 2)


def _make_room(root: Path, n_bytes: int, *, keep: Path) -> None:
    limit = allowed_bytes(root)
    if n_bytes > limit:
        raise OSError(errno.EFBIG, f"{n_bytes:,} bytes are more than the {limit:,} allowed", str(root))
    if keep.exists():
        return
    cached = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    taken = {path: sum(file.stat().st_blocks * 512 for file in path.iterdir()) for path in cached}
    for path in cached:
        if sum(taken.values()) + n_bytes <= limit:
            return
        shutil.rmtree(path, ignore_errors=True)  # a process that has it mapped can read it on
        del taken[path]


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"

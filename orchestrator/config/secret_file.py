"""Read a file that holds a secret, only if no other user of the machine can read it too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from trials.errors import ConfigError, RefusedError
from trials.outside.plain_files import MOST_TEXT, open_plain


def read_secret_file(path: Path, *, name: str, most_bytes: int) -> str:
    """The text of a file, without surrounding white space.

    Raises:
        ConfigError: it cannot be read.
        RefusedError: users other than its owner have any permission on it.
    """
    try:
        with open_plain(path, MOST_TEXT) as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(most_bytes).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror}.", exit_code=3) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise RefusedError(f"{name}: {path} can be read by other users of this machine; run: chmod 600 {path}")
    return text

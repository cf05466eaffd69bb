"""A wall clock that can be moved under running processes: see `wall_clock.c`. Needs a C compiler and Linux."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def compiler() -> str | None:
    """The C compiler, if this machine has one."""
    return shutil.which("cc") or shutil.which("gcc")


class WallClock:
    """The wall clock of all processes that were started with `environment`."""

    def __init__(self, folder: Path) -> None:
        """Builds the library in a folder."""
        self._library, self._offset = folder / "wall_clock.so", folder / "wall_clock.offset"
        words = [compiler() or "cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl"]
        subprocess.run(words, check=True, capture_output=True, text=True)
        self._offset.write_bytes(struct.pack("q", 0))

    def environment(self) -> dict[str, str]:
        """What a process must be started with."""
        return {"LD_PRELOAD": str(self._library), "WALL_CLOCK_FILE": str(self._offset)}

    def move(self, seconds: int) -> None:
        """Set the clock to so many seconds before or after the true time."""
        with self._offset.open("r+b") as file, mmap.mmap(file.fileno(), 8) as mapped:
            mapped[:8] = struct.pack("q", seconds)

"""A process that is killed while it changes a store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from orchestrator.storage.storage import FolderStorage


class Killed(FolderStorage):
    """Carries out so many writes and deletions, here and in the folders inside, and then no more."""

    def __init__(self, folder: Path, left: list[int]) -> None:
        super().__init__(folder)
        self._left = left

    def subfolder(self, name: str) -> Killed:
        return Killed(self.folder / name, self._left)

    def write(self, name: str, content: bytes | pa.Buffer) -> None:
        self._step()
        super().write(name, content)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)

    def _step(self) -> None:
        self._left[0] -= 1
        if self._left[0] < 0:
            raise KeyboardInterrupt

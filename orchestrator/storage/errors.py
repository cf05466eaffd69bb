"""Errors about single files of a store."""

from __future__ import annotations

from trials.errors import StoreError


class BrokenError(StoreError):
    """A file of a store that is corrupted or was not written by Permafrost.

    Attributes:
        wrong: What is wrong with it, without its path and the fix.
    """

    def __init__(
        self, path: str, wrong: str, way_out: str = "Move it out of the store: `permafrost store repair`"
    ) -> None:
        self.wrong = wrong
        super().__init__(f"{path}: {wrong}. {way_out}.")


class NewerError(BrokenError):
    """An intact file that a newer version wrote."""

    def __init__(self, path: str, wrong: str) -> None:
        super().__init__(path, wrong, "Upgrade permafrost-sweeps")

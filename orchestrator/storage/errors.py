"""How files of a store are refused."""

from __future__ import annotations

from trials.errors import StoreError


class BrokenError(StoreError):
    """A file of a store that is not what was written, or not ours.

    Attributes:
        wrong: What is wrong with it, without its place and the way out.
    """

    def __init__(
        self, path: str, wrong: str, way_out: str = "Move it out of the store: `permafrost store repair`"
    ) -> None:
        self.wrong = wrong
        super().__init__(f"{path}: {wrong}. {way_out}.")


class NewerError(BrokenError):
    """A file that a newer version wrote: nothing is wrong with it."""

    def __init__(self, path: str, wrong: str) -> None:
        super().__init__(path, wrong, "Upgrade permafrost-sweeps")

"""The seeds of one trial, and the one integer that stands for them."""

from __future__ import annotations

from typing import NamedTuple

_OWN = 10**10  # above every single seed
_DIGITS = 1000  # of a seed of one source
_SAME = _DIGITS - 1  # in place of one that is the seed itself and too large for three digits


class Seeds(NamedTuple):
    """The seeds of one trial: of its subset, of its initialisation, and of its order and dropout.

    The order and the dropout share a seed, as both differ from step to step of one training; so the three seeds account
    for everything that is random.
    """

    seed: int
    init: int
    order: int

    @classmethod
    def of(cls, seed: int, init: int | None = None, order: int | None = None) -> Seeds:
        """From the settings, where None means `seed`."""
        return cls(seed, seed if init is None else init, seed if order is None else order)

    @property
    def key(self) -> int:
        """One integer for the three, by which trials are paired: below 2**53, and the seed itself where all are equal.

        Otherwise its decimal digits show them: 10000001002 is seed 0, initialisation 1, order 2.
        """
        if self.init == self.order == self.seed:
            return self.seed
        return _OWN + (self.seed * _DIGITS + min(self.init, _SAME)) * _DIGITS + min(self.order, _SAME)

    @classmethod
    def from_key(cls, key: int) -> Seeds:
        """The inverse of `key`."""
        if key < _OWN:
            return cls.of(key)
        rest, order = divmod(key - _OWN, _DIGITS)
        seed, init = divmod(rest, _DIGITS)
        return cls.of(seed, None if init == _SAME else init, None if order == _SAME else order)

    @property
    def settings(self) -> dict[str, int | None]:
        """The settings of a trial with these seeds, None for those that are the seed itself."""
        own = {"init_seed": self.init, "order_seed": self.order}
        return {"seed": self.seed} | {name: None if value == self.seed else value for name, value in own.items()}

    @classmethod
    def label_of(cls, key: int) -> str:
        """The label of a key."""
        return cls.from_key(key).label

    @property
    def label(self) -> str:
        """For tables: the seed, and those of initialisation and order where they differ from it."""
        parts = {"init": self.init, "order": self.order}
        return ", ".join([str(self.seed), *(f"{name} {own}" for name, own in parts.items() if own != self.seed)])

"""A corpus as model input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trials.tasks.task import Split


@dataclass(frozen=True)
class EncodedCorpus:
    """The splits; `test` and `mismatched` are empty where the corpus has none.

    Attributes:
        labels: The labels of train, which the head predicts.
        names: The labels, followed by those that occur only in dev or test and are never predicted.
    """

    labels: tuple[str, ...]
    names: tuple[str, ...]
    pad_id: int
    train: Split
    dev: Split
    test: Split
    mismatched: Split = field(default_factory=lambda: Split([]))

    @property
    def splits(self) -> dict[str, Split]:
        """Every split by its name."""
        return {"train": self.train, "dev": self.dev, "test": self.test, "mismatched": self.mismatched}

    def with_splits(self, splits: Mapping[str, Split]) -> EncodedCorpus:
        """A copy with some of its splits replaced."""
        return EncodedCorpus(self.labels, self.names, self.pad_id, *{**self.splits, **splits}.values())

"""A corpus as the model takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trials.tasks.task import Split


@dataclass(frozen=True)
class EncodedCorpus:
    """Three splits; `test` is empty where the corpus has none.

    Attributes:
        labels: What the head tells apart, as train has it.
        names: The labels, and after them those that only dev or test have: they are never predicted.
        pad_id: The tokenizer's id for padding.
    """

    labels: tuple[str, ...]
    names: tuple[str, ...]
    pad_id: int
    train: Split
    dev: Split
    test: Split

    @property
    def splits(self) -> dict[str, Split]:
        """Every split by its name."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def with_splits(self, splits: Mapping[str, Split]) -> EncodedCorpus:
        """The same corpus with some of its splits in another form."""
        train, dev, test = (splits.get(name, split) for name, split in self.splits.items())
        return EncodedCorpus(self.labels, self.names, self.pad_id, train, dev, test)

"""The protocol of a task and the values it works on; numpy only, so that a plan can be checked without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trials.datasets.corpus import Sentence
from trials.registry import Registry

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORE = -100  # cross_entropy's own default for "not a label"


@dataclass(frozen=True, slots=True)
class Example:
    """One sentence as the model takes it.

    Attributes:
        ids: (subwords,) input ids, specials included.
        labels: (subwords,) label of a word at its first subword, IGNORE elsewhere.
        n_words: Words of the sentence, among them those cut off or with a tag that train does not have.
    """

    ids: np.ndarray
    labels: np.ndarray
    n_words: int


class Task(Protocol):
    """What a task answers to the trial."""

    def label_names(self, train: Sequence[Sentence]) -> tuple[str, ...]:
        """The labels, read from the train split and sorted."""
        ...

    def encode(
        self,
        sentences: Sequence[Sentence],
        labels: tuple[str, ...],
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_length: int,
        lowercase: bool,
    ) -> list[Example]:
        """The sentences as examples, in the same order."""
        ...

    def score(self, n_correct: int, n_words: int) -> float:
        """The primary metric, larger is better."""
        ...


TASKS: Registry[Task] = Registry("task")

"""Tokenise a corpus once a process, for every trial that shares corpus, tokenizer, task and recipe."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trials.models.load import family_of, load_tokenizer
from trials.spec import DataSpec, ModelSpec, TrialSpec
from trials.tasks import TASKS
from trials.tasks.reading import read_corpus
from trials.tasks.task import Split, unseen_labels


@dataclass(frozen=True)
class Encoded:
    """A corpus as the model takes it; `test` is empty where the corpus has no test split.

    Attributes:
        labels: What the head tells apart, as train has it.
        names: The labels, and after them those that only dev or test have: they are never predicted.
    """

    labels: tuple[str, ...]
    names: tuple[str, ...]
    train: Split
    dev: Split
    test: Split


def encode_for(spec: TrialSpec) -> Encoded:
    """The encoded corpus of a trial."""
    return _encode(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


@lru_cache(maxsize=4)
def _encode(task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> Encoded:
    corpus, task = read_corpus(task_name, data), TASKS[task_name]
    labels = task.label_names(corpus.train)
    extra = () if task.regression else unseen_labels([*corpus.dev, *corpus.test], labels)
    names = (*labels, *sorted(extra))
    tokenizer, token_types = load_tokenizer(model, task.head), family_of(model).token_types
    train, dev, test = (
        Split(
            task.encode(
                items, names, len(labels), tokenizer,
                max_length=max_length, lowercase=lowercase, token_types=token_types,
            )
            if items else []
        )
        for items in (corpus.train, corpus.dev, corpus.test)
    )  # fmt: skip
    return Encoded(labels, names, train, dev, test)

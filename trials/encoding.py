"""Tokenise a corpus once a process, for every trial that shares corpus, tokenizer, task and recipe."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trials.datasets.corpus import load_corpus
from trials.models.load import load_tokenizer
from trials.spec import DataSpec, ModelSpec, TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import Example


@dataclass(frozen=True)
class Encoded:
    """A corpus as the model takes it; `test` is empty where the corpus has no test split."""

    labels: tuple[str, ...]
    train: list[Example]
    dev: list[Example]
    test: list[Example]


def encode_for(spec: TrialSpec) -> Encoded:
    """The encoded corpus of a trial."""
    return _encode(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


@lru_cache(maxsize=4)
def _encode(task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> Encoded:
    corpus, task, tokenizer = load_corpus(data), TASKS[task_name], load_tokenizer(model)
    labels = task.label_names(corpus.train)
    train, dev, test = (
        task.encode(split, labels, tokenizer, max_length=max_length, lowercase=lowercase) if split else []
        for split in (corpus.train, corpus.dev, corpus.test)
    )
    return Encoded(labels, train, dev, test)

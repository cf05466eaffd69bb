"""A corpus as a task reads it: checked, in one tag scheme, with something to learn."""

from __future__ import annotations

from functools import lru_cache

from trials.datasets.corpus import SPLITS, Corpus, Item, load_corpus
from trials.errors import DataError
from trials.settings import DataSpec
from trials.tasks.task import TASKS, unseen_labels


def read_corpus(task_name: str, data: DataSpec) -> Corpus:
    """The items of every split, kept for the life of the process.

    Raises:
        DataError: what `load_corpus` and the task's `read` raise, or a train split in which everything is alike.
    """
    return _read(task_name, data.model_copy(update={"sizes": None}))  # with or without them it is the same corpus


@lru_cache(maxsize=8)
def _read(task_name: str, data: DataSpec) -> Corpus:
    task, raw = TASKS[task_name], load_corpus(data)
    splits: list[list[Item]] = []
    for name in SPLITS:
        try:
            splits.append(task.read(getattr(raw, name), data.scheme))
        except DataError as error:
            raise DataError(f"{data.name}, {name} split: {error}") from error
    labels = task.label_names(splits[0])
    if len(labels) < 2 and not task.regression:
        raise DataError(f"{data.name}: its train split has one label only, {labels[0]!r}; there is nothing to learn.")
    return Corpus(*splits)


def unseen_notes(task_name: str, data: DataSpec) -> list[str]:
    """A sentence for each of dev and test that has labels which train lacks."""
    task, corpus = TASKS[task_name], read_corpus(task_name, data)
    if task.regression:
        return []
    labels, notes = task.label_names(corpus.train), []
    for split in ("dev", "test"):
        found = unseen_labels(getattr(corpus, split), labels)
        if found:
            names = ", ".join(f"{label} ({n})" for label, n in found.items())
            notes.append(f"{data.name}: {split} has labels that train lacks, each counted as an error: {names}.")
    return notes

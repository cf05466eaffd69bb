"""Read a corpus for a task: validated, in one tag scheme, with at least two labels."""

from __future__ import annotations

from functools import lru_cache

from trials.datasets.broken_lines import BrokenLines, BrokenLinesError
from trials.datasets.corpus import SPLITS, Corpus, Item, load_corpus
from trials.errors import DataError
from trials.escaping.untrusted_text import quoted
from trials.settings import DataSpec
from trials.tasks.task import TASKS, unseen_labels


def read_corpus(task_name: str, data: DataSpec) -> Corpus:
    """The items of every split, cached in the process.

    Raises:
        DataError: what `load_corpus` and the task's `read` raise, or a train split with only one label.
    """
    return _read(task_name, data.model_copy(update={"sizes": None}))  # the sizes do not change the corpus


@lru_cache(maxsize=8)
def _read(task_name: str, data: DataSpec) -> Corpus:
    task, raw = TASKS[task_name], load_corpus(data)
    splits, broken = list[list[Item]](), BrokenLines()
    for name in SPLITS:
        try:
            splits.append(task.read(getattr(raw, name), data.scheme))
        except BrokenLinesError as error:
            broken.add(BrokenLinesError([f"{data.name}, {name} split: {line}" for line in error.lines], error.n))
        except DataError as error:
            raise DataError(f"{data.name}, {name} split: {error}") from error
    broken.raise_if_any()
    labels = task.label_names(splits[0])
    if len(labels) < 2 and not task.regression:
        only = quoted(labels[0])
        raise DataError(f"{data.name}: its train split has one label only, {only}; there is nothing to learn.")
    return Corpus(*splits)


def unseen_notes(task_name: str, data: DataSpec) -> list[str]:
    """A message for each split other than train with labels that do not occur in train."""
    task, corpus = TASKS[task_name], read_corpus(task_name, data)
    if task.regression:
        return []
    labels, notes = task.label_names(corpus.train), []
    for split in SPLITS[1:]:
        unseen = unseen_labels(getattr(corpus, split), labels)
        if unseen:
            names = ", ".join(f"{label} ({n})" for label, n in unseen.items())
            notes.append(f"{data.name}: {split} has labels that train lacks, each counted as an error: {names}.")
    return notes

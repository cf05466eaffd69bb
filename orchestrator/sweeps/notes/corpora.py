"""Notes on corpora: how they were read, what dev has that train lacks, what `max_length` cuts off."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.sweeps.notes.note import NOTES, Noted
from trials.datasets.corpus import item_words
from trials.tasks import TASKS
from trials.tasks.task import read_corpus, reading_notes, unseen_notes

_SPECIALS = 2  # of an input, around its words


@NOTES.register("reading")
def reading(noted: Noted) -> Iterator[str]:
    """How they were read, and what is in dev alone."""
    for task, data in noted.corpora:
        yield from (f"{data.name}: {note}" for note in reading_notes(task, data))
    for task, data in noted.corpora:
        yield from unseen_notes(task, data)


@NOTES.register("length")
def length(noted: Noted) -> Iterator[str]:
    """How many words of dev `max_length` cuts off at least: a word is one subword or more."""
    kinds = dict.fromkeys((spec.task, spec.data, spec.max_length) for spec in noted.ahead)
    for task, data, max_length in kinds:
        lengths = [len(item_words(item)) for item in read_corpus(task, data).dev]
        cut, total = sum(max(0, n + _SPECIALS - max_length) for n in lengths), sum(lengths)
        if cut:
            what = "count as errors" if TASKS[task].head == "tokens" else "are not read"
            yield (
                f"{data.name}: `max_length: {max_length}` cuts off at least {cut:,} of {total:,} words of dev, which "
                f"{what}."
            )

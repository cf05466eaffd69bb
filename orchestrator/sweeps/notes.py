"""Notes to read before a sweep runs: how its corpora were read, what dev cannot decide, what its models are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.sweeps.dev_resolution import dev_note
from orchestrator.sweeps.sweep import SweepSpec
from trials.corpora.corpus import item_words
from trials.draft import Lookup
from trials.model_checks.checked_models import check_fit
from trials.models.family import CAUSAL, is_causal
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.task_corpus import read_corpus, reading_notes, unseen_notes

_SPECIALS = 2  # special tokens of an input, around its words


def plan_notes(sweep: SweepSpec, ahead: Sequence[TrialSpec], lookup: Lookup) -> tuple[str, ...]:
    """A sentence for each thing that the user of a sweep should know; none if no trial is ahead.

    Args:
        ahead: The trials that this launch runs, or as many like them.

    Raises:
        DataError, ModelError: A corpus or model cannot be used.
    """
    return tuple(dict.fromkeys([*_corpus_notes(sweep, ahead), *_model_notes(ahead, lookup)]))


def _corpus_notes(sweep: SweepSpec, ahead: Sequence[TrialSpec]) -> Iterator[str]:
    """How they were read, what is in dev alone, what `max_length` cuts off, what dev and the seeds cannot decide."""
    corpora = dict.fromkeys((spec.task, spec.data.for_seed(0)) for spec in ahead)  # of folds, those of the first seed
    for task, data in corpora:
        yield from (f"{data.name}: {note}" for note in reading_notes(task, data))
    for task, data in corpora:
        yield from unseen_notes(task, data)
    for task, data, max_length in dict.fromkeys((spec.task, spec.data, spec.max_length) for spec in ahead):
        lengths = [len(item_words(item)) for item in read_corpus(task, data).dev]
        # at least: a word is one subword or more
        cut, total = sum(max(0, n + _SPECIALS - max_length) for n in lengths), sum(lengths)
        if cut:
            what = "count as errors" if TASKS[task].head == "tokens" else "are not read"
            yield (
                f"{data.name}: `max_length: {max_length}` cuts off at least {cut:,} of {total:,} words of dev, which "
                f"{what}."
            )
    if sweep.goal is not None:
        for task, data in corpora:
            if (note := dev_note(task, data, sweep.goal.plan.tolerance, len(set(sweep.seeds)))) is not None:
                yield note


def _model_notes(ahead: Sequence[TrialSpec], lookup: Lookup) -> Iterator[str]:
    """What a rehearsal found, what is known of a family, and tokenizers that fit a corpus badly."""
    for model, head, pairs in dict.fromkeys(
        (spec.model, TASKS[spec.task].head, spec.data.columns.pair is not None) for spec in ahead
    ):
        yield from (f"{model.name}: {note}" for note in lookup.check(model, head, pairs=pairs))
    for model in dict.fromkeys(spec.model for spec in ahead):
        if is_causal(model):
            yield f"{model.name}: {CAUSAL}"
    for model, task, data, lowercase in dict.fromkeys(
        (spec.model, spec.task, spec.data.for_seed(0), spec.lowercase) for spec in ahead
    ):
        yield from (f"{model.name}: {note}" for note in check_fit(model, task, data, lowercase=lowercase))

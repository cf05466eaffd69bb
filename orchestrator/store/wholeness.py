"""Whether all that belongs to a completed trial is there: pure functions of a store's rows.

What a trial has to have follows from its spec and from the other trials of its corpus. Whether it was asked for
predictions does not: where it has none at all, that is no fault.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from orchestrator.store.contents import TableContents
from orchestrator.store.schema import State
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.training.steps import evaluation_steps, steps_an_epoch

Row = dict[str, Any]
Pair = tuple[str, int]  # trial_id, attempt
AUTO_WORDS = (
    100_000  # as in trials.training.best_epoch, which needs torch: larger splits have no predictions by default
)


@dataclass
class Facts:
    """What there is of one attempt.

    Attributes:
        scores: Of each evaluation, by its step.
        labels: Gold labels that the per-tag table counts, by split.
        sentences: How many of the predictions' sentences there are, and the largest number, by split.
    """

    scores: dict[int, float | None] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    sentences: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Completed:
    """A completed trial whose spec is known.

    Attributes:
        row: Its row of `trials`.
    """

    row: Row
    spec: TrialSpec
    facts: Facts

    @property
    def splits(self) -> tuple[str, ...]:
        """Those that it scored."""
        return ("dev",) if self.row["test_score"] is None else ("dev", "test")

    @property
    def corpus(self) -> str:
        """What decides how many labels each split has."""
        return f"{self.spec.task} {json.dumps(self.spec.data.content(), sort_keys=True)}"

    @property
    def counts_labels(self) -> bool:
        """Whether it has a per-tag table: a regression has none, nor a store from before there were any."""
        return not TASKS[self.spec.task].regression and self.row["best_metrics"] is not None

    def keeps_by_default(self, split: str) -> bool:
        """Whether a sweep that says nothing of predictions keeps this split's."""
        return TASKS[self.spec.task].head == "tokens" and self.facts.labels.get(split, 0) <= AUTO_WORDS


def gather(tables: Mapping[str, TableContents]) -> dict[Pair, Facts]:
    """The facts of every attempt that has rows in `epochs`, `tags` or `predictions`."""
    found: dict[Pair, Facts] = {}
    for trial_id, attempt, step, score in _columns(tables["epochs"].rows, "step", "score"):
        found.setdefault((trial_id, attempt), Facts()).scores[step] = score  # of two the later, as readers do
    tags = {
        (trial_id, attempt, split, tag): support
        for trial_id, attempt, split, level, tag, support in _columns(
            tables["tags"].rows, "split", "level", "tag", "support"
        )
        if level != "span"  # spans are counted beside the tokens they are of
    }
    for (trial_id, attempt, split, _), support in tags.items():
        labels = found.setdefault((trial_id, attempt), Facts()).labels
        labels[split] = labels.get(split, 0) + (support or 0)
    keys = ["trial_id", "attempt", "split"]
    grouped = tables["predictions"].rows.group_by(keys).aggregate([("sentence", "count_distinct"), ("sentence", "max")])
    for row in grouped.to_pylist():
        facts = found.setdefault((row["trial_id"], row["attempt"]), Facts())
        facts.sentences[row["split"]] = (row["sentence_count_distinct"], row["sentence_max"])
    return found


def completed(row: Row, facts: Facts | None) -> Completed | None:
    """A row of `trials` that says completed and whose spec can be understood; None for others."""
    spec = spec_of(row["spec"], row["trial_id"])
    if isinstance(spec, str) or row["state"] != State.COMPLETED or spec.task not in TASKS:
        return None
    return Completed(row, spec, facts or Facts())


def spec_of(spec: object, trial_id: str) -> TrialSpec | str:
    """A spec, from JSON or its values, or what is wrong with it."""
    try:
        made = TrialSpec.model_validate_json(spec) if isinstance(spec, str) else TrialSpec.model_validate(spec)
    except ValueError as error:
        return f"its spec cannot be read by this version ({str(error).partition(chr(10))[0]})"
    return made if made.trial_id == trial_id else f"its spec is that of trial {made.trial_id}"


class Corpora:
    """How many labels and sentences the splits of each corpus have, by what most of its trials counted."""

    def __init__(self, trials: list[Completed]) -> None:
        self._labels: dict[tuple[str, str], Counter[int]] = {}
        self._sentences: dict[tuple[str, str], Counter[int]] = {}
        for trial in trials:
            for split, n in trial.facts.labels.items():
                self._labels.setdefault((trial.corpus, split), Counter())[n] += 1
            for split, (n, _) in trial.facts.sentences.items():
                self._sentences.setdefault((trial.corpus, split), Counter())[n] += 1

    def labels(self, trial: Completed, split: str) -> int:
        """Of a split; 0 where nobody knows."""
        return _usual(self._labels.get((trial.corpus, split)))

    def sentences(self, trial: Completed, split: str) -> int:
        """Of a split; 0 where nobody knows."""
        sizes = trial.spec.data.sizes
        if sizes is not None:
            return sizes[1 if split == "dev" else 2]
        return _usual(self._sentences.get((trial.corpus, split)))


def missing(trial: Completed, corpora: Corpora) -> Iterator[str]:
    """What a completed trial lacks, or has and should not, each as a phrase."""
    yield from _evaluations(trial)
    for split in trial.splits if trial.counts_labels else ():
        there, wanted = trial.facts.labels.get(split, 0), corpora.labels(trial, split)
        if there != wanted or not there:
            yield f"the per-tag table of {split} counts {there} of {wanted or 'all'} labels"
    yield from _predictions(trial, corpora)


def _evaluations(trial: Completed) -> Iterator[str]:
    optim, scores = trial.spec.optim, trial.facts.scores
    wanted = evaluation_steps(steps_an_epoch(trial.spec) * optim.epochs, optim.epochs, trial.spec.eval_every)
    if sorted(scores) != wanted:
        there = len(scores.keys() & set(wanted))
        surplus = len(scores) - there
        yield f"{there} of {len(wanted)} evaluations are there" + (
            f", and {surplus} that are not its own" * bool(surplus)
        )
    elif not _is_largest(trial.row["best_score"], list(scores.values())):
        yield f"its best score is {trial.row['best_score']}, the largest of its evaluations {_largest(scores)}"


def _predictions(trial: Completed, corpora: Corpora) -> Iterator[str]:
    there = trial.facts.sentences
    for split in trial.splits if there else ():
        n, last = there.get(split, (0, -1))
        wanted = corpora.sentences(trial, split) or last + 1
        text_or_small = TASKS[trial.spec.task].head == "text" or trial.keeps_by_default(split)
        if (split in there or text_or_small) and (n != wanted or last + 1 != n):
            yield f"{n} of {wanted or 'all'} sentences of {split} have their predictions"


def lost_predictions(trial: Completed, held: Mapping[str, int] | None) -> bool:
    """Whether a trial without predictions may have had some in a part that is broken.

    Args:
        trial: It.
        held: The trials that the part had rows of; None where that cannot be told.
    """
    if trial.facts.sentences:
        return False  # `missing` tells what of them is lost
    if held is None:
        return any(trial.keeps_by_default(split) for split in trial.splits)
    return trial.row["trial_id"] in held


def _is_largest(best: float | None, scores: list[float | None]) -> bool:
    numbers = [score for score in scores if score is not None and not math.isnan(score)]
    if best is None or math.isnan(best) or len(numbers) < len(scores):
        return len(numbers) < len(scores)  # of what is no number none is the largest
    return best == max(numbers)


def _largest(scores: Mapping[int, float | None]) -> float:
    return max(score for score in scores.values() if score is not None)


def _usual(counts: Counter[int] | None) -> int:
    """The most frequent number, the largest of several: rows get lost, they do not come."""
    return max(counts, key=lambda n: (counts[n], n)) if counts else 0


def _columns(rows: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Trial, attempt and these columns of every row."""
    return zip(*(rows[name].to_pylist() for name in ("trial_id", "attempt", *names)), strict=True)

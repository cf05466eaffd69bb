"""`goal: choose_depth` as a source of trials: it runs the pairs that the decision needs next (`choose_depth`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.analysis.cells import by_cell
from orchestrator.execution.trial_source import Order, Verdict
from orchestrator.search.choose_depth import Answer, DepthGoal, Known, Spend, answer, decide
from orchestrator.search.trial_results import StoredTrials, results_of
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import DepthGoalSpec
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.tasks import TASKS

LIKELY = 0.5  # a pair is run before it is known to be needed, where slots are free, if it is at least as likely as this
POINTS = 100.0
_WHY = {
    "all_within": "every freeze of the sweep is within the tolerance",
    "beyond": "loses more",
    "hopeless": "has next to no chance to be shown within the tolerance",
    "no_spread": "lost the same under every seed, which tells nothing of others",
    "seeds_used": "is undecided with all seeds used",
    "open": "is undecided, as the search stopped before its end",
}


@dataclass(frozen=True)
class Depths:
    """The cells that a depth is chosen from, each as its replicates by seed; freezes from the least to the most."""

    baseline: dict[int, TrialSpec]
    freezes: tuple[dict[int, TrialSpec], ...]

    @classmethod
    def of(cls, trials: Sequence[TrialSpec]) -> Depths:
        """From the trials of a sweep with one baseline, whose freezes are nested."""
        cells = {cell: {spec.seed: spec for spec in seeds} for cell, seeds in by_cell(trials).items()}
        firsts = {cell: next(iter(seeds.values())) for cell, seeds in cells.items()}
        baseline = next(cells[cell] for cell, spec in firsts.items() if spec.freeze.is_baseline)
        frozen = [cell for cell, spec in firsts.items() if not spec.freeze.is_baseline]
        frozen.sort(key=lambda cell: (firsts[cell].freeze.depth, firsts[cell].freeze.embeddings))
        return cls(baseline, tuple(cells[cell] for cell in frozen))

    @property
    def labels(self) -> list[str]:
        """Of the freezes."""
        return [next(iter(seeds.values())).freeze.label for seeds in self.freezes]


class DepthSearch:
    """A `Source`; see the module."""

    def __init__(self, spec: DepthGoalSpec, depths: Depths, known: StoredTrials) -> None:
        self._depths, self._known, self._budget = depths, known, spec.trials
        self._seeds = list(depths.baseline)
        self._goal = DepthGoal(
            tolerance=spec.tolerance / POINTS,
            confidence=spec.confidence,
            min_seeds=spec.min_seeds,
            max_seeds=min(len(self._seeds), 100),
            resolution=_resolution(next(iter(depths.baseline.values()))),
        )
        self._scores: dict[str, float] = {}  # of trials that are over; not a number where one failed
        self._records: dict[str, list[EpochRecord]] = {}  # of those that run
        self._used: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether it is decided, or the budget is used up."""
        return not self._records and (isinstance(self._decision(), Answer) or self._next_spec() is None)

    def next(self) -> Order | None:
        """A trial of the pair that is needed first, or of one that is likely to be."""
        while (spec := self._next_spec()) is not None:
            self._used.add(spec.trial_id)
            known = self._known.of(spec.trial_id)
            if known.results is None:
                self._records[spec.trial_id] = []
                return Order(spec)
            self._scores[spec.trial_id] = _score(known.results["score"])
        return None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """All go on to their end."""
        self._records[spec.trial_id].append(record)
        return Verdict.CONTINUE

    def ended(self, spec: TrialSpec, state: State) -> None:
        """Its score counts; a failed one's pair is a seed that broke."""
        records = self._records.pop(spec.trial_id)
        complete = state is State.COMPLETED
        self._scores[spec.trial_id] = _score(results_of(records)["score"]) if complete else math.nan

    def answer(self) -> Answer:
        """What is known now."""
        return answer(self._goal, self._losses(), self._seeds)

    def found(self) -> list[str]:
        """The answer, and what is known of every freeze."""
        if not self._scores:
            return []
        found, labels = self.answer(), self._depths.labels
        tolerance = f"{POINTS * self._goal.tolerance:g} points at {self._goal.confidence:.0%}"
        chosen = "none" if found.chosen is None else labels[found.chosen]
        head = f"chosen  {chosen}: the deepest freeze shown to lose at most {tolerance}"
        if found.chosen is None:
            head = f"chosen  none: no freeze was shown to lose at most {tolerance}"
        rows = [_row(label, known) for label, known in zip(labels, found.known, strict=True)]
        return [head, *self._ending(found, labels), *rows]

    def _ending(self, found: Answer, labels: list[str]) -> Iterator[str]:
        """Why the search ended where it did, and what it would take to go on."""
        if found.next is None:
            yield f"        {_WHY['all_within']}"
            return
        why = _WHY[found.why]
        yield f"        {labels[found.next]} {why}"
        if found.further_seeds is not None:
            yield f"        about {found.further_seeds} more seeds would decide it"
        elif found.too_near:
            yield "        its loss is so near the tolerance that no number of seeds is likely to decide it"

    def _decision(self) -> Spend | Answer:
        return decide(self._goal, self._losses(), self._seeds)

    def _next_spec(self) -> TrialSpec | None:
        """The next trial that is neither over nor running; None if there is none, or the budget is used up."""
        decision = self._decision()
        if isinstance(decision, Answer):
            return None
        for i, want in enumerate(decision.wants):
            if i and want.chance < LIKELY:
                return None
            for spec in (self._depths.baseline[want.seed], self._depths.freezes[want.candidate][want.seed]):
                if spec.trial_id not in self._scores and spec.trial_id not in self._records:
                    is_left = self._budget is None or len(self._used) < self._budget
                    return spec if is_left else None
        return None

    def _losses(self) -> list[dict[int, float]]:
        """Of every freeze: the baseline's score less its own, by seed, of pairs that are over."""
        base = {seed: self._scores.get(spec.trial_id) for seed, spec in self._depths.baseline.items()}
        return [
            {
                seed: score - own
                for seed, spec in seeds.items()
                if (score := base[seed]) is not None
                and (own := math.nan if math.isnan(score) else self._scores.get(spec.trial_id)) is not None
            }
            for seeds in self._depths.freezes
        ]


def _score(score: float | None) -> float:
    return math.nan if score is None else score


def _resolution(spec: TrialSpec) -> float:
    """The least step of a score: of an accuracy over texts one item; of tokens and of other metrics it is not known."""
    metric = spec.score or TASKS[spec.task].metrics[0]
    if metric != "accuracy" or TASKS[spec.task].head != "text" or spec.data.sizes is None:
        return 0.0
    return 1.0 / spec.data.sizes[1]


def _row(label: str, known: Known) -> str:
    if not known.n:
        return f"        {label:<14} not looked at"
    interval = ""
    if math.isfinite(known.low):
        interval = f" ({POINTS * known.low:.2f} to {POINTS * known.high:.2f})"
    broken = f", {known.broken} broke" if known.broken else ""
    return f"        {label:<14} loses {POINTS * known.mean:.2f}{interval}, {known.n} seeds{broken}: {known.verdict}"

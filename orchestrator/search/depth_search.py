"""`goal: choose_depth` as a source of trials: it runs the pairs of trials that the decision needs next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.analysis.cells import by_cell
from orchestrator.config.quantities import counted
from orchestrator.execution.trial_source import Order, Verdict
from orchestrator.search.choose_depth import Answer, DepthGoal, Known, Spend, answer, decide
from orchestrator.search.trial_results import StoredTrials, results_of
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import DepthGoalSpec
from trials.record import EpochRecord
from trials.spec import TrialSpec
from trials.tasks import TASKS

LIKELY = 0.5  # on free slots, a pair runs early if it will be needed with at least this probability
POINTS = 100.0
_WHY = {
    "all_within": "every freeze of the sweep is within the tolerance",
    "beyond": "is shown to lose more",
    "hopeless": "is very unlikely to be shown within the tolerance",
    "no_spread": "lost the same under every seed, so the spread over seeds is unknown",
    "seeds_used": "is undecided after all seeds",
    "open": "is undecided, because the search stopped early",
}


@dataclass(frozen=True)
class Depths:
    """The baseline and the candidate freezes, least frozen first, each as seed -> trial."""

    baseline: dict[int, TrialSpec]
    freezes: tuple[dict[int, TrialSpec], ...]

    @classmethod
    def of(cls, trials: Sequence[TrialSpec]) -> Depths:
        """From the trials of a sweep with one baseline and nested freezes."""
        cells = {cell: {spec.seed: spec for spec in seeds} for cell, seeds in by_cell(trials).items()}
        firsts = {cell: next(iter(seeds.values())) for cell, seeds in cells.items()}
        baseline = next(cells[cell] for cell, spec in firsts.items() if spec.freeze.is_baseline)
        frozen = [cell for cell, spec in firsts.items() if not spec.freeze.is_baseline]
        frozen.sort(key=lambda cell: (firsts[cell].freeze.depth, firsts[cell].freeze.embeddings))
        return cls(baseline, tuple(cells[cell] for cell in frozen))

    @property
    def labels(self) -> list[str]:
        """The labels of the freezes."""
        return [next(iter(seeds.values())).freeze.label for seeds in self.freezes]


class DepthSearch:
    """A `Source`; see the module docstring."""

    def __init__(self, spec: DepthGoalSpec, depths: Depths, stored: StoredTrials) -> None:
        self._depths, self._stored, self._budget = depths, stored, spec.trials
        self._seeds = list(depths.baseline)
        self._goal = DepthGoal(
            tolerance=spec.tolerance / POINTS,
            confidence=spec.confidence,
            min_seeds=spec.min_seeds,
            max_seeds=min(len(self._seeds), 100),
            resolution=_resolution(next(iter(depths.baseline.values()))),
        )
        self._scores: dict[str, float] = {}  # ended trial -> score; NaN if it failed
        self._records: dict[str, list[EpochRecord]] = {}  # running trial -> its records
        self._used: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether the depth is decided or the budget is used up."""
        return not self._records and (isinstance(self._decision(), Answer) or self._next_spec() is None)

    def next(self) -> Order | None:
        """A trial of the most needed pair, or of one that will probably be needed."""
        while (spec := self._next_spec()) is not None:
            self._used.add(spec.trial_id)
            stored = self._stored.of(spec.trial_id)
            if stored.results is None:
                self._records[spec.trial_id] = []
                return Order(spec)
            self._scores[spec.trial_id] = _score(stored.results["score"])
        return None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """Every trial continues to its end."""
        self._records[spec.trial_id].append(record)
        return Verdict.CONTINUE

    def ended(self, spec: TrialSpec, state: State) -> None:
        """Record its score; the pair of a failed trial counts as failed."""
        records = self._records.pop(spec.trial_id)
        complete = state is State.COMPLETED
        self._scores[spec.trial_id] = _score(results_of(records)["score"]) if complete else math.nan

    def answer(self) -> Answer:
        """The answer with the trials so far."""
        return answer(self._goal, self._losses(), self._seeds)

    def found(self) -> list[str]:
        """The answer, and the loss of every freeze."""
        if not self._scores:
            return []
        choice, labels, limit = self.answer(), self._depths.labels, POINTS * self._goal.tolerance
        loss = f"{limit:g} point{'s' * (limit != 1)} at {100 * self._goal.confidence:g} % confidence"
        head = f"chosen  none: no freeze is shown to lose at most {loss}"
        if choice.chosen is not None:
            head = f"chosen  {labels[choice.chosen]}: the deepest freeze shown to lose at most {loss}"
        rows = [_row(label, known) for label, known in zip(labels, choice.known, strict=True)]
        return [head, *self._ending(choice, labels), *rows]

    def _ending(self, choice: Answer, labels: list[str]) -> Iterator[str]:
        """Why the search ended there, and how many more seeds would decide."""
        if choice.next is None:
            yield f"        {_WHY['all_within']}"
            return
        yield f"        {labels[choice.next]} {_WHY[choice.why]}"
        if choice.further_seeds is not None:
            yield f"        about {counted(choice.further_seeds, 'more seed')} would decide it"
        elif choice.too_near:
            yield "        its loss is too close to the tolerance to be decided by more seeds"

    def _decision(self) -> Spend | Answer:
        return decide(self._goal, self._losses(), self._seeds)

    def _next_spec(self) -> TrialSpec | None:
        """The next trial that has neither ended nor is running; None if there is none, or the budget is used up."""
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
        """For every freeze, seed -> the score of the baseline less its own, for pairs that have ended."""
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
    """The smallest step of a score: one item for an accuracy over texts; 0 (unknown) for other metrics."""
    metric = spec.score or TASKS[spec.task].metrics[0]
    if metric != "accuracy" or TASKS[spec.task].head != "text" or spec.data.sizes is None:
        return 0.0
    return 1.0 / spec.data.sizes[1]


def _row(label: str, known: Known) -> str:
    if not known.n:
        return f"        {label:<14} not tested"
    interval = ""
    if math.isfinite(known.low):
        interval = f" ({POINTS * known.low:.2f} to {POINTS * known.high:.2f})"
    broken = f", {known.broken} failed" if known.broken else ""
    seeds = counted(known.n, "seed")
    return f"        {label:<14} loses {POINTS * known.mean:.2f}{interval}, {seeds}{broken}: {known.verdict}"

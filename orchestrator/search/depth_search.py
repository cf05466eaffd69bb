"""`goal: choose_depth` as a source of trials: it runs the pairs of trials that the decision needs next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.cells import TRAINING_COST, by_cell, strip_and_word
from orchestrator.analysis.looks import Further
from orchestrator.analysis.losses import Collapses, collapses
from orchestrator.analysis.savings import CONSTANT, FLOPS
from orchestrator.analysis.two_way import Folds, Sample, document_sizes, interval
from orchestrator.config.quantities import counted, points
from orchestrator.execution.trial_source import Chances, Order, Source, Verdict
from orchestrator.search.choose_depth import (
    Budget,
    DepthAnswer,
    DepthGoal,
    Known,
    Losses,
    Spend,
    answer,
    decide,
    paired,
)
from orchestrator.search.trial_results import Floats, StoredTrials, TrialProgress, paired_loss
from orchestrator.store.schema import State
from orchestrator.sweeps.search_spec import GoalSpec
from trials.prefix.rule import training_passes
from trials.record import EpochRecord
from trials.spec import TrialSpec

LIKELY = 0.5  # on free slots, a pair runs early if it will be needed with at least this probability
_WHY = {
    "hopeless": "is very unlikely to be shown within the tolerance",
    "no_spread": "lost the same throughout, so there is no spread to judge by",
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
        cells = {cell: {spec.seeds.key: spec for spec in seeds} for cell, seeds in by_cell(trials).items()}
        firsts = {cell: next(iter(seeds.values())) for cell, seeds in cells.items()}
        baseline = next(cells[cell] for cell, spec in firsts.items() if spec.freeze.is_baseline)
        frozen = [cell for cell, spec in firsts.items() if not spec.freeze.is_baseline]
        frozen.sort(key=lambda cell: firsts[cell].freeze.extent)
        return cls(baseline, tuple(cells[cell] for cell in frozen))

    @property
    def labels(self) -> list[str]:
        """The names of the freezes, each with its layer strip."""
        firsts = (next(iter(seeds.values())) for seeds in self.freezes)
        return [strip_and_word(spec.freeze.label, spec.model.n_layers) for spec in firsts]

    @property
    def passes(self) -> list[float]:
        """What training takes with nothing frozen, then with each freeze; in proportion to its FLOPs."""
        return [training_passes(next(iter(seeds.values()))) for seeds in (self.baseline, *self.freezes)]

    @property
    def savings(self) -> list[float]:
        """The share of the training FLOPs that each freeze saves."""
        whole, *passes = self.passes
        return [1 - part / whole for part in passes]


class DepthSearch(Source):
    """A `Source`; see the module docstring."""

    def __init__(
        self,
        spec: GoalSpec,
        depths: Depths,
        stored: StoredTrials,
        time_left: Callable[[], float] | None = None,
    ) -> None:
        """`time_left`: seconds until a limit stops the launch; None without one, and the search is to be short."""
        asked = spec.choose_depth
        assert asked is not None
        self._depths, self._stored, self._most_trials, self._time_left = depths, stored, asked.trials, time_left
        self._seeds, self._cost, self._confidence = list(depths.baseline), spec.cost, asked.confidence
        self._passes, self._expected = depths.passes, depths.savings
        data = next(iter(depths.baseline.values())).data
        self._folds = None if data.folds is None else Folds(data.folds, sum((data.sizes or (0, 0))[:2]))
        self._goal = DepthGoal(spec.plan, min(len(self._seeds), 100))
        self._ended: dict[str, TrialProgress] = {}  # without results if it failed
        self._records: dict[str, list[EpochRecord]] = {}  # running trial -> its records
        self._used: set[str] = set()
        self._most_running = 1
        self._took: dict[str, float] = {}  # seconds of the trials that ended here
        self._decided: Spend | DepthAnswer | None = None  # by the trials that have ended

    @property
    def is_over(self) -> bool:
        """Whether the depth is decided or the budget is used up."""
        return not self._records and (isinstance(self._decision(), DepthAnswer) or self._next_spec() is None)

    def next(self) -> Order | None:
        """A trial of the most needed pair, or of one that will probably be needed."""
        while (spec := self._next_spec()) is not None:
            self._used.add(spec.trial_id)
            stored = self._stored.of(spec.trial_id)
            if stored.results is None:
                self._records[spec.trial_id] = []
                self._most_running = max(self._most_running, len(self._records))
                return Order(spec)
            self._end(spec, stored)
        return None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> Verdict:
        """Every trial continues to its end."""
        self._records[spec.trial_id].append(record)
        return Verdict.CONTINUE

    def ended(self, spec: TrialSpec, state: State) -> None:
        """Record its results; the pair of a failed trial counts as failed."""
        records, trial = self._records.pop(spec.trial_id), TrialProgress(state=state)
        if state is State.COMPLETED:
            trial.complete(records)
            self._took[spec.trial_id] = sum(record.spent_s for record in records)
        self._end(spec, trial)

    def settle(self, spec: TrialSpec, state: State) -> bool:
        """Take its results from the store."""
        self._stored.look_for(spec.trial_id)
        del self._records[spec.trial_id]
        if state is not State.PRUNED:
            self._end(spec, self._stored.of(spec.trial_id))
        return state is not State.PRUNED

    def _end(self, spec: TrialSpec, trial: TrialProgress) -> None:
        self._ended[spec.trial_id], self._decided = trial, None

    def chances(self) -> Chances:
        """By the losses so far; what would exceed the budget is left out of the sum, not of single trials."""
        decision, wanted = self._decision(), dict[str, float]()
        for want in () if isinstance(decision, DepthAnswer) else decision.wants:
            for spec in (self._depths.baseline[want.seed], self._depths.freezes[want.candidate][want.seed]):
                wanted[spec.trial_id] = max(want.chance, wanted.get(spec.trial_id, 0.0))
        trials = (spec for seeds in (self._depths.baseline, *self._depths.freezes) for spec in seeds.values())
        ahead = [spec for spec in trials if spec.trial_id not in self._ended and spec.trial_id not in self._records]
        left = self._trials_left()
        likely = sum(wanted.get(spec.trial_id, 0.0) for spec in ahead)
        share = 1.0 if left is None or likely <= left else left / likely
        return Chances([(spec, share * wanted.get(spec.trial_id, 0.0)) for spec in ahead], left)

    def answer(self) -> DepthAnswer:
        """The answer with the trials so far."""
        return answer(self._goal, self._losses(), self._seeds, self._savings(), self._sizes())

    def found(self) -> list[str]:
        """The answer, and the loss of every freeze."""
        if not self._ended:
            return []
        choice, labels, limit = self.answer(), self._depths.labels, self._goal.plan.tolerance
        loss = f"{counted(limit, 'point')} at {100 * self._confidence:g} % confidence"
        head = [f"chosen  none: no freeze is shown to lose at most {loss}"]
        if choice.chosen is not None:
            over = "on this dev set" if choice.known[choice.chosen].n_sentences is None else "over seeds and sentences"
            head = [f"chosen  {labels[choice.chosen]}: the deepest freeze shown to lose at most {loss}, {over}"]
            head += [f"        it holds for runs that do not collapse ({self.collapses(choice.chosen).sentence})"]
            head += self._on_test(choice.chosen)
        rows = [self._row(index, known) for index, known in enumerate(choice.known)]
        title = "mean loss in points (interval that holds at all looks; median over seeds)"
        return [*head, *self._ending(choice, labels), f"        {title}", *rows]

    def _on_test(self, index: int) -> Iterator[str]:
        """The loss of the chosen freeze on test."""
        losses = paired(self._losses_of(index, "test"), self._seeds)
        if len(losses):
            sizes = self._sizes("test")
            assert not isinstance(sizes, Folds)  # of dev
            test = interval(losses, self._confidence, sizes)
            ends = "" if test.low is None or test.high is None else f" ({points(test.low)} to {points(test.high)})"
            n = test.n_sentences if sizes is None or test.n_sentences is None else int(sizes.sum())
            base = _sample(test.n_seeds, n, "test", None if sizes is None or n is None else len(sizes))
            yield f"        on test, which took no part in the choice, it loses {points(test.mean)}{ends}, {base}"

    def _ending(self, choice: DepthAnswer, labels: list[str]) -> Iterator[str]:
        """Why the search ended there, and what would decide."""
        least = f"{100 * self._goal.plan.min_saving:g} % of the training FLOPs"
        if not any(saving >= self._goal.plan.min_saving for saving in self._savings()):
            yield f"        no freeze of the sweep saves {least}"
        elif choice.nearest is None:
            more = f"saves {least} or more" if choice.chosen is None else "saves more"
            yield f"        nothing is open: every freeze that {more} is shown to lose more"
        else:
            yield f"        {labels[choice.nearest]} {_WHY.get(choice.why, 'is undecided')}"
            if choice.further is not None:
                yield f"        {_further(choice.further, choice.known[choice.nearest])}"

    def _row(self, index: int, known: Known) -> str:
        """One line for a freeze: its loss, what that rests on, and what it shows."""
        label = f"        {self._depths.labels[index]:<17}"
        if not known.n:
            return f"{label} not tested"
        pairs, runs, looks = list(self._pairs(index).values()), self.collapses(index), self._goal.looks
        losses = [loss.mean() for pair in pairs if pair is not None and (loss := paired_loss(*pair)) is not None]
        ends = f"{points(known.low)} to {points(known.high)}; " if math.isfinite(known.high) else ""
        base = [_sample(known.n, known.n_sentences, "dev", known.n_documents)]
        if failed := pairs.count(None):
            base.append(f"{counted(failed, 'pair')} failed")
        if runs.collapsed:
            base.append(f"{runs.collapsed} of {counted(runs.runs, 'run')} collapsed")
        look = f"look {known.n - looks.first + 1} of up to {looks.planned - looks.first + 1}"
        base.append(look if known.n >= looks.first else f"no look before {counted(looks.first, 'seed')}")
        value = f"{points(known.mean)} ({ends}median {points(float(np.median(losses)))})"
        return f"{label} {value}, {', '.join(base)}: {known.verdict}"

    def _decision(self) -> Spend | DepthAnswer:
        if self._decided is None:
            self._decided = decide(
                self._goal, self._losses(), self._seeds, self._savings(), self._budget(), self._sizes()
            )
        return self._decided

    def _budget(self) -> Budget:
        """What is left of the time and the trials."""
        left = None if self._time_left is None else max(self._time_left(), 0.0) * self._most_running
        return Budget(left, self._trials_left(), self._seconds())

    def _trials_left(self) -> int | None:
        return None if self._most_trials is None else max(self._most_trials - len(self._used), 0)

    def _seconds(self) -> list[float]:
        """Of a trial of each setting, the baseline first: as measured, or by its FLOPs; empty before a trial ended."""
        cells = (self._depths.baseline, *self._depths.freezes)
        took = [[self._took[i] for spec in seeds.values() if (i := spec.trial_id) in self._took] for seeds in cells]
        measured = [
            (passes, float(np.mean(seconds))) for passes, seconds in zip(self._passes, took, strict=True) if seconds
        ]
        if not measured:
            return []
        return [
            float(np.mean(seconds)) if seconds else max(t for p, t in measured if p == near) * passes / near
            for passes, seconds in zip(self._passes, took, strict=True)
            for near in [min((p for p, _ in measured), key=lambda p: abs(p - passes))]
        ]

    def _next_spec(self) -> TrialSpec | None:
        """The next trial that has neither ended nor is running; None if there is none, or the budget is used up."""
        decision = self._decision()
        if isinstance(decision, DepthAnswer):
            return None
        for i, want in enumerate(decision.wants):
            if i and want.chance < LIKELY and self._time_left is None:
                return None
            for spec in (self._depths.baseline[want.seed], self._depths.freezes[want.candidate][want.seed]):
                if spec.trial_id not in self._ended and spec.trial_id not in self._records:
                    return spec if self._trials_left() != 0 else None
        return None

    def _savings(self) -> list[float]:
        """The share of the plan's cost that each freeze saves, as of `analysis.savings`; before its first pair what its
        layers let expect.
        """
        return [self._saved(index) for index in range(len(self._depths.freezes))]

    def _saved(self, index: int) -> float:
        costs = [self._cost] if self._cost else [FLOPS, *CONSTANT]
        pairs = [pair for pair in self._pairs(index).values() if pair is not None]
        for cost in costs:
            sides = [[_cost_of(trial, cost) for trial in pair] for pair in pairs]
            ratios = [math.log(ours / base) for base, ours in sides if ours > 0 and base > 0]
            if ratios and len(ratios) == len(sides):
                return -math.expm1(sum(ratios) / len(ratios))
        return self._expected[index]

    def _losses(self) -> list[Losses]:
        """For every freeze, seed -> the loss of its pair, for pairs that have ended."""
        return [self._losses_of(index) for index in range(len(self._depths.freezes))]

    def _losses_of(self, index: int, split: str = "dev") -> Losses:
        """None for a pair of which a trial failed or collapsed.

        Where half or more of a freeze's own runs collapsed, that is what it does, and it counts as the loss it is.
        """
        runs, losses = self.collapses(index), dict[int, Floats | None]()
        for seed, pair in self._pairs(index).items():
            is_left_out = pair is None or pair[0].has_collapsed or (runs.is_rare and pair[1].has_collapsed)
            losses[seed] = None if pair is None or is_left_out else paired_loss(*pair, split)
        if split == "dev" and self._folds is not None:  # of whole seeds, whose sentences are others
            return {seed: None if loss is None else loss.mean(keepdims=True) for seed, loss in losses.items()}
        return losses

    def _sizes(self, split: str = "dev") -> Sample | None:
        """Sentences of each document, or the folds, as of `two_way.estimate`; the same for all trials."""
        if split == "dev" and self._folds is not None:
            return self._folds
        for trial in self._ended.values():
            if (documents := trial.sentences.get(split, {}).get("documents")) is not None:
                return document_sizes(documents, len(documents))
        return None

    def _pairs(self, index: int) -> dict[int, tuple[TrialProgress, TrialProgress] | None]:
        """The ended pairs of a freeze by seed; None where one has failed."""
        pairs: dict[int, tuple[TrialProgress, TrialProgress] | None] = {}
        for seed, spec in self._depths.freezes[index].items():
            baseline = self._ended.get(self._depths.baseline[seed].trial_id)
            freeze = self._ended.get(spec.trial_id)
            if baseline is not None and freeze is not None:
                pairs[seed] = (baseline, freeze) if baseline.results and freeze.results else None
            elif baseline is not None and not baseline.results:
                pairs[seed] = None  # whatever the freeze would score
        return pairs

    def collapses(self, index: int) -> Collapses:
        """How many runs of a freeze collapsed, of those of which it is known."""
        trials = (self._ended.get(spec.trial_id) for spec in self._depths.freezes[index].values())
        return collapses([trial.has_collapsed for trial in trials if trial and trial.has_collapsed is not None])


def _cost_of(trial: TrialProgress, cost: str) -> float:
    """A cost of a trial, `training_cost_s` with the time of frozen states; 0 where it is not known."""
    results = trial.results or {}
    names = ("train_s", "prefix_s") if cost == TRAINING_COST else (cost,)
    return sum(results.get(name) or 0.0 for name in names)


def _sample(n_seeds: int, n_sentences: int | None, split: str, n_documents: int | None = None) -> str:
    """What a loss rests on."""
    sentences = f"on this {split} set" if n_sentences is None else f"and {counted(n_sentences, 'sentence')}"
    documents = f" of {counted(n_documents, 'document')}" if n_documents else ""
    return f"{counted(n_seeds, 'seed')} {sentences}{documents}"


def _further(further: Further, known: Known) -> str:
    """What would decide a freeze that is undecided."""
    seeds = None if further.further_seeds is None else counted(further.further_seeds, "more seed")
    sentences, together = (
        None if n is None else counted(n, f"more {known.items}")
        for n in (further.further_sentences, further.sentences_with_all_seeds)
    )
    if seeds and sentences:
        return f"about {seeds}, or {sentences}, would decide it"
    if seeds:
        return f"about {seeds} would decide it"
    if sentences:
        return f"about {sentences} would decide it; more seeds alone would not"
    if together:
        return f"about {together} with all seeds would decide it; neither alone would"
    what = "more seeds" if known.n_sentences is None else f"more seeds or more {known.items}s"
    return f"its loss is too close to the tolerance to be decided by {what}"

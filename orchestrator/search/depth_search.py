"""`goal: choose_depth` as a source of trials: it runs the pairs of trials that the decision needs next.

What is decided so far is `analysis.decide` of the trials that have ended, as `permafrost answer` has it; what is next
is `choose_depth`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from orchestrator.analysis.answer import answers
from orchestrator.analysis.answer_text import curve_lines, lines_of
from orchestrator.analysis.cells import cell_specs
from orchestrator.analysis.decide import Decision, decide, loss_table
from orchestrator.analysis.setting_phrases import basis, loss_phrase
from orchestrator.analysis.trial_frame import trial_frame, with_sentences
from orchestrator.execution.trial_queue import Chances, End, Source
from orchestrator.execution.trial_rows import trial_row
from orchestrator.search.choose_depth import Budget, Want, end_reason, next_pairs
from orchestrator.search.trial_results import StoredTrials, TrialProgress
from orchestrator.sweeps.search_spec import GoalSpec
from trials.prefix.work import training_passes
from trials.record import EpochRecord, State
from trials.spec import TrialSpec

if TYPE_CHECKING:
    import pandas as pd

LIKELY = 0.5  # on free slots, a pair runs early if it will be needed with at least this probability
_WHY = {
    "hopeless": "the planned seeds are very unlikely to show what is open to be within the tolerance",
    "no_spread": "what is open lost the same throughout, so there is no spread to judge by",
    "seeds_used": "what is open is undecided after all seeds",
    "open": "it was stopped before all was decided",
}


@dataclass(frozen=True)
class Depths:
    """The baseline and the candidate freezes, least frozen first, each as seed -> trial."""

    baseline: dict[int, TrialSpec]
    freezes: tuple[dict[int, TrialSpec], ...]

    @classmethod
    def from_trials(cls, trials: Sequence[TrialSpec]) -> Depths:
        """The depths of a sweep with one baseline and nested freezes, from its trials."""
        cells = {cell: {spec.seeds.key: spec for spec in seeds} for cell, seeds in cell_specs(trials).items()}
        firsts = {cell: next(iter(seeds.values())) for cell, seeds in cells.items()}
        baseline = next(cells[cell] for cell, spec in firsts.items() if spec.freeze.is_baseline)
        frozen = [cell for cell, spec in firsts.items() if not spec.freeze.is_baseline]
        frozen.sort(key=lambda cell: firsts[cell].freeze.extent)
        return cls(baseline, tuple(cells[cell] for cell in frozen))

    @property
    def passes(self) -> list[float]:
        """What training takes with nothing frozen, then with each freeze; in proportion to its FLOPs."""
        return [training_passes(next(iter(seeds.values()))) for seeds in (self.baseline, *self.freezes)]

    @property
    def savings(self) -> list[float]:
        """The share of the training FLOPs that each freeze saves."""
        whole, *passes = self.passes
        return [1 - part / whole for part in passes]


_FAILED = [state.value for state in State if state not in (State.COMPLETED, State.PRUNED)]


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
        goal = spec.choose_depth
        assert goal is not None
        self._depths, self._stored, self._most_trials, self._time_left = depths, stored, goal.trials, time_left
        self._seeds, self._plan, self._passes = list(depths.baseline), spec.plan, depths.passes
        self._cells = (depths.baseline, *depths.freezes)
        self._specs = [spec for seeds in self._cells for spec in seeds.values()]
        self._first_look = list(depths.baseline.values())[: self._plan.min_seeds]  # the baseline's
        self._ended: dict[str, Mapping[str, Any]] = {}  # rows as of the store's table
        self._sentences: dict[str, Mapping[str, Mapping[str, Any]]] = {}  # trial -> split -> what is known of each
        self._records: dict[str, list[EpochRecord]] = {}  # running trial -> its records
        self._used: set[str] = set()
        self._most_running = 1
        self._took: dict[str, float] = {}  # seconds of the trials that ended here
        self._decided: Decision | None = None  # by the trials that have ended
        self._wants: list[Want] = []

    @property
    def is_over(self) -> bool:
        """Whether the depth is decided or the budget is used up."""
        return not self._records and self._next_spec() is None

    def next(self) -> TrialSpec | None:
        """The next trial of the pair needed most, or of one probably needed; None if none is to start now."""
        while (spec := self._next_spec()) is not None:
            self._used.add(spec.trial_id)
            stored = self._stored.progress(spec.trial_id)
            if stored.results is None:
                self._records[spec.trial_id] = []
                self._most_running = max(self._most_running, len(self._records))
                return spec
            self._end(spec, self._stored.row(spec.trial_id), stored)
        return None

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> bool:
        """Every trial continues to its end."""
        self._records[spec.trial_id].append(record)
        return True

    def ended(self, end: End) -> None:
        """Record its results, from the store if it ended elsewhere; the pair of a failed trial counts as failed."""
        spec, records = end.spec, self._records.pop(end.spec.trial_id)
        row: Mapping[str, Any]
        if end.is_here:
            trial, row = TrialProgress(state=end.state), trial_row(spec, 1, records, end.state, None)
            if end.state is State.COMPLETED:
                trial.complete(records)
                self._took[spec.trial_id] = sum(record.spent_s for record in records)
        else:
            self._stored.look_for(spec.trial_id)
            trial = self._stored.progress(spec.trial_id)
            row = self._stored.row(spec.trial_id) or trial_row(spec, 1, [], end.state, None)
        self._end(spec, row, trial)

    def _end(self, spec: TrialSpec, row: Mapping[str, Any], trial: TrialProgress) -> None:
        self._ended[spec.trial_id], self._sentences[spec.trial_id] = row, trial.sentences
        self._decided = None

    def decision(self) -> Decision:
        """What the trials so far decide, exactly as `permafrost answer` says it."""
        if self._decided is None:
            self._decided = decide(self._frame(), self._plan)
            is_known = all(spec.trial_id in self._ended for spec in self._first_look)
            self._wants = [] if is_known and self._decided.is_vacuous else self._wanted_pairs(self._decided)
        return self._decided

    def _wanted_pairs(self, decision: Decision) -> list[Want]:
        return next_pairs(decision, self._ended_seeds(), self._seeds, self._depths.savings, self._budget())

    def _frame(self, split: str = "dev") -> pd.DataFrame:
        frame, columns = trial_frame(self._specs, self._ended.values()), dict[str, dict[str, Any]]()
        for trial_id, splits in self._sentences.items():
            for name, values in splits.get(split, {}).items():
                columns.setdefault(name, {})[trial_id] = values
        return with_sentences(frame, columns)

    def _ended_seeds(self) -> list[set[int]]:
        """Of each freeze, the seeds whose pair has ended; where the baseline has failed, whatever it would score."""
        ended, base = self._ended, self._depths.baseline
        failed = {seed for seed, spec in base.items() if ended.get(spec.trial_id, {"state": ""})["state"] in _FAILED}
        return [
            {
                seed
                for seed, spec in seeds.items()
                if seed in failed or (spec.trial_id in ended and base[seed].trial_id in ended)
            }
            for seeds in self._depths.freezes
        ]

    def chances(self) -> Chances:
        """Chances by the losses so far; where they exceed the budget together, all are scaled down to it."""
        self.decision()
        wanted = dict[str, float]()
        for want in self._wants:
            for spec in (self._depths.baseline[want.seed], self._depths.freezes[want.candidate][want.seed]):
                wanted[spec.trial_id] = max(want.chance, wanted.get(spec.trial_id, 0.0))
        ahead = [
            spec for spec in self._specs if spec.trial_id not in self._ended and spec.trial_id not in self._records
        ]
        n_left = self._trials_left()
        likely = sum(wanted.get(spec.trial_id, 0.0) for spec in ahead)
        share = 1.0 if n_left is None or likely <= n_left else n_left / likely
        return Chances([(spec, share * wanted.get(spec.trial_id, 0.0)) for spec in ahead], n_left)

    def answer_lines(self, columns: int = 100) -> list[str]:
        """The answer, as `permafrost answer` words it, why the search ended there, and the loss of every freeze."""
        first = {spec.cell_id: spec for spec in reversed(self._specs)}
        if not self._ended or not (found := answers(self._frame(), first, self._plan)):
            return []
        answer, indent = found[0], 8 * " "
        reason = _WHY.get(end_reason(self.decision(), self._ended_seeds(), self._seeds, self._depths.savings), "")
        ending = [f"The search ended, as {reason}."] if reason and not answer.decided_by.is_vacuous else []
        head, figures = lines_of(answer)
        lines = [line for text in (figures, *self._test_lines(), *ending) for line in wrap(text, columns - len(indent))]
        return [f"chosen  {head}", *(f"{indent}{line}" for line in [*lines, "", *curve_lines(answer, columns - 8)])]

    def _test_lines(self) -> Iterator[str]:
        """The loss of the chosen freeze on test."""
        chosen = self.decision().choice
        if chosen is None:
            return
        table = loss_table(self._frame("test"), "test_score", self._plan).set_index("cell")
        row = table.loc[chosen["cell"]]
        if row["n_pairs"]:
            base = basis({**row, "n_folds": None, "unit": chosen["unit"]}, "test")
            yield f"On test, which took no part in the choice, it {loss_phrase(row)}; {base}."

    def _budget(self) -> Budget:
        """The time and the number of trials that are left."""
        seconds_left = None if self._time_left is None else max(self._time_left(), 0.0) * self._most_running
        return Budget(seconds_left, self._trials_left(), self._seconds())

    def _trials_left(self) -> int | None:
        return None if self._most_trials is None else max(self._most_trials - len(self._used), 0)

    def _seconds(self) -> list[float]:
        """Seconds of a trial of each setting, the baseline first: measured, or by FLOPs; empty before a trial ended."""
        times = self._took
        took = ([times[spec.trial_id] for spec in seeds.values() if spec.trial_id in times] for seeds in self._cells)
        means = [float(np.mean(seconds)) if seconds else None for seconds in took]
        measured = [(passes, mean) for passes, mean in zip(self._passes, means, strict=True) if mean is not None]
        if not measured:
            return []

        def like_nearest(passes: float) -> float:
            near = min((known for known, _ in measured), key=lambda known: abs(known - passes))
            return max(mean for known, mean in measured if known == near) * passes / near

        return [like_nearest(p) if mean is None else mean for p, mean in zip(self._passes, means, strict=True)]

    def _next_spec(self) -> TrialSpec | None:
        """The next trial that has neither ended nor is running; None if there is none, or the budget is used up.

        In a given time the baseline's first look comes before all else. It ends the search where it has not learned,
        or no more than the tolerance gives up.
        """
        if self._time_left is not None:
            begun = self._ended.keys() | self._records.keys()
            if waiting := [spec for spec in self._first_look if spec.trial_id not in begun]:
                return waiting[0] if self._trials_left() != 0 else None
        self.decision()
        for i, want in enumerate(self._wants):
            if i and want.chance < LIKELY and self._time_left is None:
                return None
            for spec in (self._depths.baseline[want.seed], self._depths.freezes[want.candidate][want.seed]):
                if spec.trial_id not in self._ended and spec.trial_id not in self._records:
                    return spec if self._trials_left() != 0 else None
        return None

"""How much of a question fits the time that was given: the seeds that are planned, the part of train, the depths.

All of it follows from one forecast. A first answer takes a curve of depths, and five seeds of nothing frozen and of
the two depths within it (`first_answer`). Train is cut, if at all, so that a first answer fits; where not even
`FEWEST` items leave room for it, a person is asked for more time, and with nobody to ask two depths run, not all.
Seeds are planned before the first loss is seen, from times alone, which say nothing of losses: this costs no error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.config.quantities import HOUR, counted, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import SEEDS, PartOfQuestion, Question, SweepFile, sized
from orchestrator.search.choose_depth import spread
from orchestrator.search.depth_search import Depths
from orchestrator.session.launch_loop import Launch
from orchestrator.sweeps.load_sweep import load_sweep, sweep_of_text
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast
    from orchestrator.forecast.pilot import Pilots

SPARE = 0.9  # of the time, so that a forecast that is a little off still ends in it
PILOTS = 3  # shapes that are timed; those between are told from them, as the time is for the curve
FEWEST = 100  # train items; fewer say little about a freeze
FEWEST_SEEDS, MOST_SEEDS = 5, 15  # that are planned
_BESIDE_PAIRS = 10  # trials of a curve that a plan spends beside the pairs that decide
_TRIES = 2  # how often a part of train is tried: fewer items may take more epochs


def seeds_that_fit(n_trials: int) -> int:
    """Seeds to plan where so many trials fit the time.

    The end of an interval lies farther out the more of the planned seeds are missing, so seeds that never run cost
    certainty. Of whole searches drawn from FreezeBench's losses, 24 trials decide 54, 50 and 34 % with 5, 8 and 15
    planned, 40 trials 62, 83 and 92 %.
    """
    return min(MOST_SEEDS, max(FEWEST_SEEDS, (n_trials - _BESIDE_PAIRS) // 2))


def first_answer(depths: Depths, min_seeds: int) -> list[TrialSpec]:
    """The trials that a first answer takes: a curve of depths, then as many seeds as a plan has at least of nothing
    frozen and of the two depths that are likeliest to be asked about, those within the curve.
    """
    curve = spread(len(depths.freezes))
    likely = curve[-3:-1] if len(curve) > 2 else curve
    chosen = list(depths.baseline.values())[: max(FEWEST_SEEDS, min_seeds)]
    for i in curve:
        n_seeds = max(FEWEST_SEEDS, min_seeds) if i in likely else min_seeds
        chosen += list(depths.freezes[i].values())[:n_seeds]
    return chosen


class TimedPlan(NamedTuple):
    """A question as it would run, and how long that takes.

    Attributes:
        first_s: Median seconds until a first answer; 0 where its trials have run, None where nobody knows.
        n_first: Trials of a first answer.
    """

    question: Question
    plan: Plan
    forecast: Forecast
    first_s: float | None
    n_first: int

    @property
    def n_train(self) -> int:
        """Train items."""
        return max((spec.train_size for spec in self.plan.trials), default=0)

    def fits(self, seconds: float) -> bool:
        """Whether a first answer comes in that time, as far as anybody knows."""
        return self.first_s is None or self.first_s <= seconds

    def trials_in(self, seconds: float) -> int | None:
        """How many trials fit, at the mean price of those of a first answer; None where nobody knows."""
        return int(self.n_first * seconds / self.first_s) if self.first_s else None


@dataclass(frozen=True)
class TimeBudget:
    """Shares out the time of a launch; `pilots` are timed where no trial of the store tells how long a step takes."""

    folder: Path
    launch: Launch
    lookup: Lookup
    pilots: Pilots

    def fit(self, asked: ChooseOptions, question: Question) -> tuple[ChooseOptions, TimedPlan]:
        """As much of the question as fits, with the options that a person may have changed for it.

        Raises:
            RefusedError: Its sweep file is there and was edited.
        """
        kept = SweepFile(self.folder / f"{question.name}.yaml")
        if kept.asks_alike(question.asked):
            timed, why = self._as_before(kept, question), "as before"
        else:
            asked, timed = self._part_that_fits(asked, replace(question, seeds=FEWEST_SEEDS))
            budget = self if asked.max_hours == self.launch.bounds.hours else self._with_hours(asked.max_hours)
            timed, why = budget._with_seeds_that_fit(timed)
        seeds = counted(timed.question.seeds, "seed")
        first = f"; a first answer after about {duration(timed.first_s)}" if timed.first_s else ""
        self.launch.say(f"planned {seeds}, {why}{first}")
        if timed.plan.ahead:
            n = counted(len(timed.plan.ahead), "trial")
            self.launch.say(f"{timed.forecast.line}, if all {n} were needed")
        return asked, timed

    @property
    def left(self) -> float:
        """Seconds that may be planned for."""
        return SPARE * max(self.launch.time_left, 1.0)

    def _with_hours(self, hours: float) -> TimeBudget:
        return replace(self, launch=self.launch.with_hours(hours))

    def _timed(self, question: Question) -> TimedPlan:
        from orchestrator.forecast.forecast import forecast_of

        path = self.folder / f"{question.name}.yaml"
        kept = SweepFile(path)
        again = kept.asks(question.asked) and kept.holds(question)  # with what a person added to it
        declared = load_sweep(path, []) if again else sweep_of_text(path, question.sweep_text())
        plan = self.launch.plan(*declared, self.lookup)
        forecast = forecast_of(plan, self.launch.results, self.launch.where, pilots=self.pilots)
        first = first_answer(Depths.of(plan.trials), plan.sweep.decision_plan.min_seeds)
        return TimedPlan(question, plan, forecast, forecast.wall_of(first), len(first))

    def _as_before(self, kept: SweepFile, question: Question) -> TimedPlan:
        """The question as its file has it, or all of it, where a part was taken for less time than there is now."""
        question, say, hours = _with_trials(question, self.lookup, kept), self.launch.say, self.launch.bounds.hours
        kept_size, part = question.train_size, question.part
        if part is not None and hours is not None and hours > part.given:
            timed = self._timed(replace(sized(question, self.lookup, None), depths=(), part=None))
            if hours >= part.of_all or timed.fits(self.left):
                say(f"data    all {timed.n_train:,} for training, as --max-hours {hours:g} has time for them")
                return timed if kept_size is None else self._with_seeds_that_fit(timed)[0]
        if kept_size is not None and not kept.asks(question.asked):
            say(f"data    the first {kept_size:,} for training, as at the other tolerance: its trials serve")
        return self._timed(question)

    def _part_that_fits(self, asked: ChooseOptions, question: Question) -> tuple[ChooseOptions, TimedPlan]:
        """On all of train and every depth unless not even a first answer would end in the time."""
        timed, hours = self._timed(question), asked.max_hours
        if timed.fits(self.left):
            return asked, timed
        assert timed.first_s is not None
        all_s, n_train, of_all = timed.first_s, timed.n_train, self._hours_for(timed.first_s)
        for _ in range(_TRIES):
            if timed.fits(self.left) or timed.n_train <= FEWEST:
                break
            assert timed.first_s is not None
            size = max(FEWEST, _rounded(timed.n_train * self.left / timed.first_s))
            timed = self._timed(replace(sized(question, self.lookup, size), part=PartOfQuestion(hours, of_all)))
        if timed.fits(self.left):
            self.launch.say(
                f"data    a first answer on all {n_train:,} takes about {duration(all_s)}, more than is left of "
                f"--max-hours {hours:g}: taking {timed.n_train:,} (all of them: --max-hours {of_all:g})"
            )
            return asked, timed
        assert timed.first_s is not None
        enough, on = self._hours_for(timed.first_s), f"on {timed.n_train:,} training examples"
        self.launch.say(
            f"note    a first answer takes about {duration(timed.first_s)} {on}, more than the {duration(self.left)} "
            f"left: give --max-hours {enough:g}{f', or {of_all:g} for all {n_train:,}' if of_all > enough else ''}"
        )
        if asked.ask is not None:
            ways = {f"--max-hours {more:g}": more for more in (enough, of_all)}
            more = ways.get(asked.ask("Go on with what fits, or take the time?", ["go on", *ways]), hours)
            if more != hours:
                return self._with_hours(more)._part_that_fits(replace(asked, max_hours=more), question)
        _, third, *_, deepest = spread(timed.plan.trials[0].model.n_layers + 1)
        self.launch.say(f"note    running what fits {on}: nothing frozen, first {third} and all")
        part = PartOfQuestion(hours, of_all)
        return asked, self._timed(replace(timed.question, depths=(third, deepest), part=part))

    def _with_seeds_that_fit(self, timed: TimedPlan) -> tuple[TimedPlan, str]:
        """The seeds that its time fits, and why these."""
        n = timed.trials_in(self.left)
        seeds = SEEDS if n is None else seeds_that_fit(n)
        why = "as nothing is known yet of how long a trial takes"
        if n is not None:
            why = f"as {counted(n, 'trial')} {'fits' if n == 1 else 'fit'} --max-hours {self.launch.bounds.hours:g}"
        if seeds != timed.question.seeds:
            timed = self._timed(replace(timed.question, seeds=seeds))
        return timed, why

    def _hours_for(self, seconds: float) -> float:
        """The `--max-hours` with which so much would fit, with what has been spent until now; rounded up."""
        return math.ceil(100 * (self.launch.elapsed_s + seconds / SPARE) / HOUR) / 100


def _with_trials(question: Question, lookup: Lookup, kept: SweepFile) -> Question:
    """The question as its sweep file has it, in size, seeds, depths, epochs and rate, also at another tolerance: its
    trials serve.

    Raises:
        RefusedError: The file is that of this question, and edited.
    """
    question = replace(sized(question, lookup, kept.train_size()), seeds=kept.seeds(), depths=kept.depths())
    question = _as_tried(question, kept)
    if kept.asks(question.asked):
        kept.refuse_edited(question)
    return question


def _as_tried(question: Question, kept: SweepFile) -> Question:
    """The question with the epochs and rates of its sweep file: what its baseline took to learn, or what was best.

    Rates that are asked for are chosen anew, from the trials that the store has.
    """
    optim = dict(question.recipe["optim"])
    if (epochs := kept.epochs()) is None:  # a person's file
        return question
    optim["epochs"] = epochs
    rates = kept.rates() if "--rates" in question.asked else {}
    if "--rates" not in question.asked:
        optim["lr"] = kept.rate() or optim["lr"]
    return replace(question, recipe={**question.recipe, "optim": optim}, rates=rates, part=kept.part())


def _rounded(n: float) -> int:
    """Two digits, rounded down."""
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(n // step * step)

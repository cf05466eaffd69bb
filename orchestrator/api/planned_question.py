"""Plan what `choose` will run: the question agreed on, how much of it fits the time, the learning rates that are tried
first, the plan and its forecast, and the files that are written.

One forecast decides how much fits. A first answer takes a curve of depths, and five seeds of nothing frozen and of the
two depths within it (`first_answer`). If train has to be cut, it is cut so that a first answer fits. If even `FEWEST`
items leave no room for one, the user is asked for more time; without a terminal two depths run instead of all. The
number of seeds is fixed before any loss is seen, from times alone, which tell nothing about losses: it costs no error.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from orchestrator.api.model_export import refuse_folder
from orchestrator.config.quantities import HOUR, amount, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import LARGER_SHARE
from orchestrator.own_data.question import (
    NOTHING,
    SEEDS,
    PartOfQuestion,
    Question,
    SweepFile,
    question_of,
    with_pinned_versions,
    with_size,
)
from orchestrator.search.choose_depth import spread
from orchestrator.search.depth_search import Depths
from orchestrator.session.launch_loop import Launch
from orchestrator.session.tables import plan_lines
from orchestrator.store import ResultStore
from orchestrator.sweeps.dev_resolution import dev_note, resolvable_tolerance
from orchestrator.sweeps.load_sweep import load_sweep, sweep_of_text
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.record import State
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast
    from orchestrator.forecast.pilot import Pilots

SPARE = 0.9  # share of the time that is planned, so that a sweep still ends in it if the forecast is a little low
PILOTS = 3  # shapes that are timed; the others are interpolated, as the time is better spent on the curve
FEWEST = 100  # train items; fewer say little about a freeze
FEWEST_SEEDS, MOST_SEEDS = 5, 15  # bounds on the planned seeds
_BESIDE_PAIRS = 10  # trials of the curve that a plan spends in addition to the pairs that decide
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
        first_s: Median seconds until a first answer; 0 if its trials have run, None if unknown.
        n_first: Number of trials of a first answer.
    """

    question: Question
    plan: Plan
    forecast: Forecast
    first_s: float | None
    n_first: int

    @property
    def n_train(self) -> int:
        """The number of train items of the largest trial."""
        return max((spec.train_size for spec in self.plan.trials), default=0)

    def fits(self, seconds: float) -> bool:
        """Whether a first answer is forecast within that time; True if no forecast is possible."""
        return self.first_s is None or self.first_s <= seconds

    def trials_in(self, seconds: float) -> int | None:
        """How many trials fit, at the mean time of a first answer's trials; None if that time is unknown."""
        return int(self.n_first * seconds / self.first_s) if self.first_s else None


@dataclass(frozen=True)
class TimeBudget:
    """Shares out the time of a launch; `pilots` are timed if no trial in the store tells how long a step takes."""

    folder: Path
    launch: Launch
    lookup: Lookup
    pilots: Pilots

    def fit(self, options: ChooseOptions, question: Question) -> tuple[ChooseOptions, TimedPlan]:
        """As much of the question as fits the time, and the options, which the user may have changed to make it fit.

        Raises:
            RefusedError: The question's sweep file exists and was edited.
        """
        kept = SweepFile(self.folder / f"{question.name}.yaml")
        if kept.is_for_any_tolerance(question.command):
            timed, why = self._as_in_file(kept, question), "as before"
        else:
            options, timed = self._part_that_fits(options, replace(question, seeds=FEWEST_SEEDS))
            budget = self if options.max_hours == self.launch.max_hours else self._with_hours(options.max_hours)
            timed, why = budget._with_seeds_that_fit(timed)
        seeds = amount(timed.question.seeds, "seed")
        first = f"; a first answer after about {duration(timed.first_s)}" if timed.first_s else ""
        self.launch.say(f"planned {seeds}, {why}{first}")
        if timed.plan.workload:
            n = amount(len(timed.plan.workload), "trial")
            self.launch.say(f"{timed.forecast.line}, if all {n} were needed")
        return options, timed

    @property
    def left_s(self) -> float:
        """Seconds that may be planned for."""
        return SPARE * max(self.launch.time_left, 1.0)

    def _with_hours(self, hours: float) -> TimeBudget:
        return replace(self, launch=replace(self.launch, max_hours=hours))

    def _time(self, question: Question) -> TimedPlan:
        from orchestrator.forecast.forecast import forecast_of

        path = self.folder / f"{question.name}.yaml"
        kept = SweepFile(path)
        again = kept.is_for(question.command) and kept.holds(question)  # with what a person added to it
        declared = load_sweep(path, []) if again else sweep_of_text(path, question.sweep_text())
        plan = self.launch.plan(*declared, self.lookup)
        forecast = forecast_of(plan, self.launch.results, self.launch.where, pilots=self.pilots)
        first = first_answer(Depths.from_trials(plan.trials), plan.sweep.decision_plan.min_seeds)
        return TimedPlan(question, plan, forecast, forecast.wall_of(first), len(first))

    def _as_in_file(self, kept: SweepFile, question: Question) -> TimedPlan:
        """The question as its file has it, or all of it, where a part was taken for less time than there is now."""
        question, say, hours = _with_trials(question, self.lookup, kept), self.launch.say, self.launch.max_hours
        kept_size, part = question.train_size, question.part
        if part is not None and hours is not None and hours > part.given:
            of_all = question if kept_size is None else with_size(question, self.lookup, None)
            timed = self._time(replace(of_all, depths=(), part=None))
            if hours >= part.of_all or timed.fits(self.left_s):
                say(f"data    all {timed.n_train:,} for training, as --max-hours {hours:g} has time for them")
                return timed if kept_size is None else self._with_seeds_that_fit(timed)[0]
        if kept_size is not None and not kept.is_for(question.command):
            say(f"data    the first {kept_size:,} for training, as at the other tolerance: its trials serve")
        return self._time(question)

    def _part_that_fits(self, options: ChooseOptions, question: Question) -> tuple[ChooseOptions, TimedPlan]:
        """On all of train and every depth unless not even a first answer would end in the time."""
        timed, hours = self._time(question), options.max_hours
        if timed.fits(self.left_s):
            return options, timed
        assert timed.first_s is not None
        all_s, n_train, of_all = timed.first_s, timed.n_train, self._hours_for(timed.first_s)
        for _ in range(_TRIES):
            if timed.fits(self.left_s) or timed.n_train <= FEWEST:
                break
            assert timed.first_s is not None
            size = max(FEWEST, _round_down(timed.n_train * self.left_s / timed.first_s))
            timed = self._time(replace(with_size(question, self.lookup, size), part=PartOfQuestion(hours, of_all)))
        if timed.fits(self.left_s):
            self.launch.say(
                f"data    a first answer on all {n_train:,} takes about {duration(all_s)}, more than is left of "
                f"--max-hours {hours:g}: taking {timed.n_train:,} (all of them: --max-hours {of_all:g})"
            )
            return options, timed
        assert timed.first_s is not None
        enough, on = self._hours_for(timed.first_s), f"on {timed.n_train:,} training examples"
        self.launch.say(
            f"note    a first answer takes about {duration(timed.first_s)} {on}, more than the {duration(self.left_s)} "
            f"left: give --max-hours {enough:g}{f', or {of_all:g} for all {n_train:,}' if of_all > enough else ''}"
        )
        if options.ask is not None:
            ways = {f"--max-hours {more:g}": more for more in (enough, of_all)}
            more = ways.get(options.ask("Go on with what fits, or take the time?", ["go on", *ways]), hours)
            if more != hours:
                return self._with_hours(more)._part_that_fits(replace(options, max_hours=more), question)
        return options, self._with_two_depths(timed, on, PartOfQuestion(hours, of_all))

    def _with_two_depths(self, timed: TimedPlan, on: str, part: PartOfQuestion) -> TimedPlan:
        _, third, *_, deepest = spread(timed.plan.trials[0].model.n_layers + 1)
        self.launch.say(f"note    running what fits {on}: nothing frozen, first {third} and all")
        return self._time(replace(timed.question, depths=(third, deepest), part=part))

    def fit_again(self, question: Question) -> TimedPlan:
        """The question with what its baseline took to learn, in the time that is left. Its seeds stay, as losses were
        seen, and so does train, on which it was seen to learn: where a first answer does not fit, two depths run.
        """
        timed, hours = self._time(question), self.launch.max_hours
        if not timed.fits(self.left_s) and not question.depths:
            assert timed.first_s is not None
            assert hours is not None
            of_all, on = self._hours_for(timed.first_s), f"with {question.recipe['optim']['epochs']} epochs"
            self.launch.say(
                f"note    a first answer takes about {duration(timed.first_s)} {on}, more than the "
                f"{duration(self.left_s)} left: give --max-hours {of_all:g} for every depth"
            )
            timed = self._with_two_depths(timed, on, PartOfQuestion(hours, of_all))
        first = f"; a first answer after about {duration(timed.first_s)}" if timed.first_s else ""
        self.launch.say(f"planned {amount(timed.question.seeds, 'seed')}, as before{first}")
        return timed

    def _with_seeds_that_fit(self, timed: TimedPlan) -> tuple[TimedPlan, str]:
        """The seeds that its time fits, and why these."""
        n = timed.trials_in(self.left_s)
        seeds = SEEDS if n is None else seeds_that_fit(n)
        why = "as nothing is known yet of how long a trial takes"
        if n is not None:
            why = f"as {amount(n, 'trial')} {'fits' if n == 1 else 'fit'} --max-hours {self.launch.max_hours:g}"
        if seeds != timed.question.seeds:
            timed = self._time(replace(timed.question, seeds=seeds))
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
    question = replace(with_size(question, lookup, kept.train_size()), seeds=kept.seeds(), depths=kept.depths())
    question = _with_tried_recipe(question, kept)
    if kept.is_for(question.command):
        kept.refuse_edited(question)
    return question


def _with_tried_recipe(question: Question, kept: SweepFile) -> Question:
    """The question with the epochs and rates of its sweep file: what its baseline took to learn, or what was best.

    Rates that are asked for are chosen anew, from the trials that the store has.
    """
    optim = dict(question.recipe["optim"])
    if (epochs := kept.epochs()) is None:  # a person's file
        return question
    optim["epochs"] = epochs
    rates = kept.rates() if "--rates" in question.command else {}
    if "--rates" not in question.command:
        optim["lr"] = kept.rate() or optim["lr"]
    return replace(question, recipe={**question.recipe, "optim": optim}, rates=rates, part=kept.part())


def _round_down(n: float) -> int:
    """Two digits, rounded down."""
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(n // step * step)


if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast

BEST = "best"  # the value of `--export` that takes what is decided, or else what the curve recommends
FOLDS = 5  # that are proposed
_FINER = 0.9  # times the tolerance that dev decides, at which another way to score is worth a search
AUTO = "auto"
_AROUND = (0.4, 1.0, 2.5)  # multiples of the recipe's rate that `auto` tries
_ABOVE = (2.5, 6.0)  # multiples of the highest rate tried so far, for a baseline that learned nothing


class PlannedQuestion(NamedTuple):
    """What will run. `options` are what was agreed on; `is_again`: the file of the same command holds it already."""

    options: ChooseOptions
    question: Question
    path: Path
    is_again: bool
    plan: Plan
    forecast: Forecast


def plan_question(options: ChooseOptions, folder: Path, launch: Launch) -> PlannedQuestion:
    """Read the data, share out the time, and try learning rates if the options ask for them."""
    from orchestrator.forecast.pilot import Pilots

    with launch.lookup(offline=options.offline) as lookup:

        def question_about(options: ChooseOptions) -> Question:
            base = question_of(with_pinned_versions(options, folder, launch.say), lookup, launch.say)
            return replace(base, command=options.question, folder=folder)

        question, pilots = question_about(options), Pilots(launch.say, PILOTS)  # each shape is timed once
        _refuse_files(options, folder, question)
        options, timed = TimeBudget(folder, launch, lookup, pilots).fit(options, question)
        launch = replace(launch, max_hours=options.max_hours)
        if (changed := _agree(options, timed.question, folder, launch.say)) != options:
            _refuse_files(changed, folder, question)
            options, timed = TimeBudget(folder, launch, lookup, pilots).fit(changed, question_about(changed))
            launch = replace(launch, max_hours=options.max_hours)
        question, plan = timed.question, timed.plan
        path = folder / f"{question.name}.yaml"
        kept = SweepFile(path)
        is_again = kept.is_for(options.question)
        n_layers = plan.trials[0].model.n_layers
        if options.rates is not None and options.dry_run:
            _say_rates(question, options.rates, _depths_to_rate(options.rates, n_layers), path, launch, lookup)
        elif options.rates is not None:  # what the store has of them is not run again
            depths = _depths_to_rate(options.rates, n_layers)
            question = with_best_rates(question, options.rates, depths, path, launch, lookup)
            plan = launch.plan(*sweep_of_text(path, question.sweep_text()), lookup)
    return PlannedQuestion(options, question, path, is_again and kept.holds(question), plan, timed.forecast)


def say_plan(planned: PlannedQuestion, launch: Launch) -> None:
    """Write the sweep file, unless it is there, and say what is planned that was not said yet."""
    path, question = planned.path, planned.question
    if planned.is_again:
        launch.say(f"sweep   as the same command wrote it: {path}")
    else:
        was = " in place of an earlier one; trials that serve both are used again" if path.exists() else ""
        SweepFile(path).write(question.sweep_text())
        launch.say(f"sweep   wrote {path}{was}")
    printed = {f"note    {question.corpus.spec.name}: {line}" for line in question.corpus.lines}
    if not planned.is_again:  # `agreed` has said what dev cannot decide, and what would
        corpus, tolerance = question.corpus, planned.options.tolerance
        printed.add(f"note    {dev_note(corpus.task, corpus.spec, tolerance, question.seeds)}")
    for line in plan_lines(planned.plan, launch.results.address, launch.where)[1:]:
        if not line.startswith("data ") and line not in printed:
            launch.say(line)


def _refuse_files(options: ChooseOptions, folder: Path, question: Question) -> None:
    """Raise RefusedError, before anything runs, for a folder or file that would be overwritten."""
    if options.export is not None:
        refuse_folder(export_folder(options, question.name))
    SweepFile(folder / f"{question.name}.yaml").refuse_other(options.question)


def export_folder(options: ChooseOptions, sweep: str) -> Path:
    """The folder that the model is exported to."""
    return Path(options.export if options.export not in (None, BEST) else model_folder(sweep))


def model_folder(sweep: str) -> str:
    """The folder that the model of a question is exported to by default."""
    return f"{sweep.removeprefix('choose-')}-model"


def _agree(options: ChooseOptions, question: Question, folder: Path, say: Callable[[str], None]) -> ChooseOptions:
    """The options, which a person may change on reading that dev cannot decide the tolerance.

    With nobody to ask they stay as they are, and a note says so.
    """
    task, data = question.corpus.task, question.corpus.spec
    share = share_to_hold_out(question)
    note = dev_note(task, data, options.tolerance, question.seeds, share)
    if note is None or SweepFile(folder / f"{question.name}.yaml").is_for(options.question):
        return options
    say(f"note    {note}")
    tolerance = math.ceil(2 * min(finest_tolerance(question), 100)) / 2
    ways = {f"--tolerance {tolerance:g}": replace(options, tolerance=tolerance)} if tolerance < 100 else {}
    more = ways_to_score_more(question, options)
    ways |= {option: way for option, way in more.items() if tells_more(question, way)}
    if options.ask is None:
        say(f"note    continuing with what was given{'; other ways: ' + ', '.join(ways) if ways else ''}.")
        return options
    picked = options.ask("Go on with that, or with another tolerance or dev split?", ["go on", *ways])
    return ways.get(picked, options)


def finest_tolerance(question: Question, **other: Any) -> float:
    """The smallest tolerance, in points, that dev and the seeds of a question decide, or `other` folds or shares do."""
    return resolvable_tolerance(question.corpus.task, question.corpus.spec, question.seeds, **other)


def tells_more(question: Question, way: ChooseOptions) -> bool:
    """Whether dev as these options have it decides so much smaller a tolerance that it is worth a search."""
    then = finest_tolerance(question, held_out=way.held_out, folds=way.folds)
    return then < _FINER * finest_tolerance(question)


def ways_to_score_more(question: Question, options: ChooseOptions) -> dict[str, ChooseOptions]:
    """Ways to have more examples score, where dev is nobody else's, too, by option: a larger share held out, folds."""
    ways, share = dict[str, ChooseOptions](), share_to_hold_out(question)
    if share is not None and options.held_out is None:
        ways[f"--held-out {share:g}"] = replace(options, held_out=share)
    if not has_own_dev(question) and question.corpus.spec.folds is None:
        ways[f"--folds {FOLDS}"] = replace(options, held_out=None, folds=FOLDS)
    return ways


def share_to_hold_out(question: Question) -> float | None:
    """The share of train that would serve better as dev; None if it is no larger, or dev is fixed or in folds."""
    data = question.corpus.spec
    assert data.sizes is not None
    n_train, n_dev, _ = data.sizes
    is_fixed = data.folds is not None or has_own_dev(question)
    return LARGER_SHARE if not is_fixed and LARGER_SHARE * (n_train + n_dev) > 1.5 * n_dev else None


def has_own_dev(question: Question) -> bool:
    """Whether dev is a split that others use, too: of a treebank or a dataset, not a share of somebody's own train."""
    data = question.corpus.spec
    return data.held_out is None and (data.source is not None or "bundled" in question.corpus.data)


def with_best_rates(
    question: Question, text: str, depths: Sequence[int], path: Path, launch: Launch, lookup: Lookup
) -> Question:
    """The question with the rate of each depth that scored best on dev, by mean over seeds of its own.

    `depths`: tried beside nothing frozen; others take the rate of the nearest that was tried. What the store has of the
    trials is not run again.

    Raises:
        ConfigError: The rates are no numbers above 0.
    """
    rates = rates_of(text, float(question.recipe["optim"]["lr"]))
    plan = plan_beside(path, "rates-", question.rates_text(rates, depths), launch, lookup)
    start = time.monotonic()
    if plan.workload:
        launch.say(f"rates   trying {_rate_list(rates)} in {amount(len(plan.workload), 'trial')} first")
        with launch.run(plan):
            pass
    best = _best_rates(plan.trials, launch.results)
    if NOTHING not in best:
        launch.say(f"rates   no time was left to try them; all depths have {question.recipe['optim']['lr']:g}")
        return question
    text = ", ".join(f"{'none' if depth == NOTHING else f'first {depth}'} {rate:g}" for depth, rate in best.items())
    took = f" ({duration(time.monotonic() - start)})" if plan.workload else ""
    launch.say(f"rates   {text}: best on dev, on seeds that the answer does not use{took}")
    if len(set(best.values())) == 1:
        optim = {**question.recipe["optim"], "lr": best[NOTHING]}
        return replace(question, recipe={**question.recipe, "optim": optim}, rates={})
    n_layers = plan.trials[0].model.n_layers
    return replace(question, rates={depth: nearest(best, depth) for depth in (NOTHING, *range(n_layers + 1))})


def _depths_to_rate(text: str, n_layers: int) -> list[int]:
    """The depths at which rates are tried: some that span the encoder, with `auto` one deep freeze alone."""
    depths = [depth for depth in spread(n_layers + 1) if depth]
    return depths[-2:-1] or depths if text == AUTO else depths


def _say_rates(
    question: Question, text: str, depths: Sequence[int], path: Path, launch: Launch, lookup: Lookup
) -> None:
    """Print which rates would be tried first, and how long that takes. Raises ConfigError as `with_best_rates`."""
    from orchestrator.forecast.forecast import forecast_of

    rates = rates_of(text, float(question.recipe["optim"]["lr"]))
    plan = plan_beside(path, "rates-", question.rates_text(rates, depths), launch, lookup)
    launch.say(f"rates   {_rate_list(rates)} would be tried first, in {amount(len(plan.workload), 'trial')}")
    if plan.workload and (forecast := forecast_of(plan, launch.results, launch.where)).wall_s:
        launch.say(f"        {forecast.line}")


def _rate_list(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)


def plan_beside(path: Path, word: str, text: str, launch: Launch, lookup: Lookup) -> Plan:
    """The plan of the sweep of that text, named after the file of a question. Raises as `Launch.plan`."""
    beside = path.with_name(path.name.replace("choose-", word, 1))
    return launch.plan(*sweep_of_text(beside, text), lookup)


def rates_of(text: str, usual: float) -> list[float]:
    """The rates that `--rates` names, ascending. Raises ConfigError."""
    if text == AUTO:
        return [float(f"{usual * factor:.2g}") for factor in _AROUND]
    try:
        rates = sorted({float(word) for word in text.split(",")})
    except ValueError:
        rates = []
    if len(rates) < 2 or not all(0 < rate < np.inf for rate in rates):
        raise ConfigError(f"--rates {text}: give two or more rates above 0, as in 2e-5,5e-5,1e-4, or {AUTO}.")
    return rates


def higher_rates(tried: str | None, usual: float) -> str:
    """What `--rates` tries next where the baseline has not learned: around the recipe's rate, then above all tried."""
    if tried is None:
        return AUTO
    return ",".join(f"{factor * rates_of(tried, usual)[-1]:.2g}" for factor in (1, *_ABOVE))


def _best_rates(trials: Sequence[TrialSpec], results: ResultStore) -> dict[int, float]:
    """By depth (`NOTHING` for none) the rate with the best mean dev score; of equal ones the lowest."""
    rows = results.trials(["trial_id", "state", "best_score"]).to_pylist()
    scores = {row["trial_id"]: row["best_score"] for row in rows if row["state"] == State.COMPLETED}
    tried: dict[int, dict[float, list[float]]] = {}
    for spec in trials:
        depth = NOTHING if spec.freeze.is_baseline else spec.freeze.depth
        of_rate = tried.setdefault(depth, {}).setdefault(spec.optim.lr, [])
        if spec.trial_id in scores:
            of_rate.append(scores[spec.trial_id])
    n_seeds = len({spec.seed for spec in trials})
    return {
        depth: max(sorted(by_rate), key=lambda rate: float(np.mean(by_rate[rate])))
        for depth, by_rate in sorted(tried.items())
        if all(len(of_rate) == n_seeds for of_rate in by_rate.values())
    }


def nearest(best: Mapping[int, float], depth: int) -> float:
    """The rate of the tried depth nearest to one; the embeddings are nearest to nothing frozen."""
    return best[min(best, key=lambda tried: (abs(max(tried, 0) - max(depth, 0)), tried))]

"""What `choose` will run: the question agreed on, as much of train as the time allows, learning rates that are tried
first, its plan and forecast, and the files that it writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from orchestrator.api.model_export import refuse_folder
from orchestrator.config.quantities import HOUR, counted, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import NOTHING, SEEDS, Question, SweepFile, as_before, question_of, sized
from orchestrator.search.choose_depth import spread
from orchestrator.search.depth_search import Depths
from orchestrator.session.launch_loop import Launch
from orchestrator.session.tables import plan_lines
from orchestrator.store import ResultStore
from orchestrator.sweeps.dev_resolution import dev_note, resolved
from orchestrator.sweeps.load_sweep import load_sweep, sweep_of_text
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.record import State
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast

BEST = "best"  # of `--export`: what is decided, else what the curve recommends
HOLD_OUT, FOLDS = 0.3, 5  # of train, where dev is too small for the tolerance
SPARE = 0.9  # of the time, so that a forecast that is a little off still ends in it
PILOTS = 3  # shapes that are timed; those between are told from them, as the time is for the curve
FEWEST = 100  # train items; fewer say little about a freeze
_FITS = 2  # how often a part of train is tried: fewer items may take more epochs
AUTO = "auto"
_AROUND = (0.4, 1.0, 2.5)  # of the recipe's rate, with `auto`
_ABOVE = (2.5, 6.0)  # of the highest rate tried, where nothing was learned


class PlannedQuestion(NamedTuple):
    """What will run. `asked` is what was agreed on; `is_again`: the file of the same command holds it already."""

    asked: ChooseOptions
    question: Question
    path: Path
    is_again: bool
    plan: Plan
    forecast: Forecast


def plan_question(asked: ChooseOptions, folder: Path, launch: Launch) -> PlannedQuestion:
    """The data read, the time shared out, learning rates tried where they are asked for."""
    with launch.lookup(offline=asked.offline) as lookup:

        def question_about(options: ChooseOptions) -> Question:
            base = question_of(as_before(options, folder, launch.say), lookup, launch.say)
            return replace(base, asked=options.question, folder=folder)

        question = question_about(asked)
        if (changed := _agreed(asked, question, folder, launch.say)) != asked:
            asked, question = changed, question_about(changed)
        _refuse_files(asked, folder, question)
        path = folder / f"{question.name}.yaml"
        kept = SweepFile(path)
        is_again = kept.asks(asked.question)
        if kept.asks_alike(asked.question):
            question = _with_trials(question, lookup, kept, launch.say)
        plan, forecast, question = _fitting(question, path, launch, lookup)
        n_layers = plan.trials[0].model.n_layers
        if asked.rates is not None and asked.dry_run:
            _say_rates(question, asked.rates, _depths_to_rate(asked.rates, n_layers), path, launch, lookup)
        elif asked.rates is not None:  # what the store has of them is not run again
            depths = _depths_to_rate(asked.rates, n_layers)
            question = with_best_rates(question, asked.rates, depths, path, launch, lookup)
            plan = launch.plan(*sweep_of_text(path, question.sweep_text()), lookup)
    return PlannedQuestion(asked, question, path, is_again and kept.holds(question), plan, forecast)


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
        asked = planned.asked
        printed.add(f"note    {dev_note(question.corpus.task, question.corpus.spec, asked.tolerance, SEEDS)}")
    for line in plan_lines(planned.plan, launch.results.address, launch.where)[1:]:
        if not line.startswith("data ") and line not in printed:
            launch.say(line)


def _refuse_files(asked: ChooseOptions, folder: Path, question: Question) -> None:
    """Raise RefusedError, before anything runs, for a folder or file that would be overwritten."""
    if asked.export is not None:
        refuse_folder(export_folder(asked, question.name))
    SweepFile(folder / f"{question.name}.yaml").refuse_other(asked.question)


def export_folder(asked: ChooseOptions, sweep: str) -> Path:
    """Where the model goes."""
    return Path(asked.export if asked.export not in (None, BEST) else model_folder(sweep))


def model_folder(sweep: str) -> str:
    """Where the model of a question goes if nobody says."""
    return f"{sweep.removeprefix('choose-')}-model"


def _with_trials(question: Question, lookup: Lookup, kept: SweepFile, say: Callable[[str], None]) -> Question:
    """The question as its sweep file has it, in size, epochs and rate, also at another tolerance: its trials serve.

    Raises:
        RefusedError: The file is that of this question, and edited.
    """
    question = _as_tried(sized(question, lookup, kept.train_size()), kept)
    if kept.asks(question.asked):
        kept.refuse_edited(question)
    elif question.train_size is not None:
        say(f"data    the first {question.train_size:,} for training, as at the other tolerance: its trials serve")
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
    return replace(question, recipe={**question.recipe, "optim": optim}, rates=rates, hours=kept.hours())


def _agreed(asked: ChooseOptions, question: Question, folder: Path, say: Callable[[str], None]) -> ChooseOptions:
    """The options, which a person may change on reading that dev cannot decide the tolerance.

    With nobody to ask they stay as they are, and a note says so.
    """
    task, data = question.corpus.task, question.corpus.spec
    share = worth_holding_out(question)
    note = dev_note(task, data, asked.tolerance, SEEDS, share)
    if note is None or SweepFile(folder / f"{question.name}.yaml").asks(asked.question):
        return asked
    say(f"note    {note}")
    tolerance = math.ceil(2 * min(resolved(task, data, SEEDS), 100)) / 2
    ways = {f"--tolerance {tolerance:g}": replace(asked, tolerance=tolerance)} if tolerance < 100 else {}
    if share is not None:
        ways |= {f"--held-out {share:g}": replace(asked, held_out=share)} if asked.held_out is None else {}
        ways |= {f"--folds {FOLDS}": replace(asked, held_out=None, folds=FOLDS)}
    if asked.ask is None:
        say(f"note    continuing with what was given{'; other ways: ' + ', '.join(ways) if ways else ''}.")
        return asked
    picked = asked.ask("Go on with that, or with another tolerance or dev split?", ["go on", *ways])
    return ways.get(picked, asked)


def worth_holding_out(question: Question) -> float | None:
    """The share of train that would serve better as dev; None where it is no larger, or dev is fixed, or folds."""
    data = question.corpus.spec
    assert data.sizes is not None
    n_train, n_dev, _ = data.sizes
    is_fixed = data.folds is not None or (
        data.held_out is None and (data.source is not None or "bundled" in question.corpus.data)
    )
    return HOLD_OUT if not is_fixed and HOLD_OUT * (n_train + n_dev) > 1.5 * n_dev else None


def _fitting(question: Question, path: Path, launch: Launch, lookup: Lookup) -> tuple[Plan, Forecast, Question]:
    """The plan and its forecast, on all of train unless not even a curve would end in the time.

    A part that was taken for less time is given up where a curve on all of train fits now. Without past trials on this
    device pilots of a few dozen steps are timed, each once.
    """
    from orchestrator.forecast.forecast import forecast_of
    from orchestrator.forecast.pilot import Pilots

    kept, pilots = SweepFile(path), Pilots(launch.say, PILOTS)  # the time of a step does not depend on the train size

    def planned(question: Question) -> tuple[Plan, Forecast, float]:
        again = kept.asks(question.asked) and kept.holds(question)  # with what a person added to it
        declared = load_sweep(path, []) if again else sweep_of_text(path, question.sweep_text())
        plan = launch.plan(*declared, lookup)
        forecast = forecast_of(plan, launch.results, launch.where, pilots=pilots)
        return plan, forecast, _curve_s(plan, forecast)

    plan, forecast, curve_s = planned(question)
    hours = launch.bounds.hours or math.inf
    if question.hours is not None and hours > question.hours:
        whole = replace(sized(question, lookup, None), hours=None)
        all_of_it = planned(whole)
        if all_of_it[-1] <= SPARE * launch.time_left:
            question, (plan, forecast, curve_s) = whole, all_of_it
            launch.say(
                f"data    all {plan.trials[0].train_size:,} for training, as --max-hours {hours:g} has time for them"
            )
    has_file = kept.asks_alike(question.asked)
    n_train = max((spec.train_size for spec in plan.trials), default=0)
    for _ in range(0 if has_file else _FITS):
        left, n = SPARE * max(launch.time_left, 1.0), max((spec.train_size for spec in plan.trials), default=0)
        if curve_s <= left or n <= FEWEST:
            break
        size = max(FEWEST, _rounded(n * left / curve_s))
        price = "" if n < n_train else f"; all of them take --max-hours {hours_of_all(curve_s, hours):g}"
        launch.say(
            f"data    a curve of depths on {n:,} takes {duration(curve_s)}, more than is left of --max-hours "
            f"{hours:g}: trying {size:,}{price}"
        )
        question = replace(sized(question, lookup, size), hours=hours)
        plan, forecast, curve_s = planned(question)
    if plan.ahead:
        curve = "" if not curve_s or plan.n_skipped else f"; a curve of depths after about {duration(curve_s)}"
        launch.say(f"{forecast.line}, if every trial were needed{curve}")
    return plan, forecast, question


def all_of_train_hours(question: Question, path: Path, launch: Launch, lookup: Lookup) -> float | None:
    """The `--max-hours` that a curve on all of train takes, where a part was used; None where not, or unknown."""
    from orchestrator.forecast.forecast import forecast_of

    if question.hours is None:
        return None
    whole = replace(sized(question, lookup, None), hours=None)
    plan = launch.plan(*sweep_of_text(path, whole.sweep_text()), lookup)
    curve_s = _curve_s(plan, forecast_of(plan, launch.results, launch.where))
    return hours_of_all(curve_s, question.hours) if curve_s else None


def hours_of_all(curve_s: float, too_few: float) -> float:
    """The `--max-hours` for a curve on all of train, where so many were too few: pilots took some of them."""
    return max(_hours(curve_s / SPARE), round(_hours(too_few * HOUR) + 0.01, 2))


def _curve_s(plan: Plan, forecast: Forecast) -> float:
    """Seconds until the first look at depths that span the encoder; 0 where nobody knows."""
    if forecast.wall_s is None:
        return 0.0
    depths = Depths.of(plan.trials)
    cells = [depths.baseline, *(depths.freezes[i] for i in spread(len(depths.freezes)))]
    first = {spec.trial_id for seeds in cells for spec in list(seeds.values())[: plan.sweep.decision_plan.min_seeds]}
    seconds = forecast.seconds
    share = sum(seconds.get(i, 0.0) for i in first) / max(sum(seconds.values()), 1e-9)
    return share * forecast.wall_s.median


def _hours(seconds: float) -> float:
    """Hours, rounded up to two digits."""
    return max(math.ceil(100 * seconds / HOUR) / 100, 0.01)


def _rounded(n: float) -> int:
    """Two digits, rounded down."""
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(n // step * step)


def with_best_rates(
    question: Question, asked: str, depths: Sequence[int], path: Path, launch: Launch, lookup: Lookup
) -> Question:
    """The question with the rate of each depth that scored best on dev, by mean over seeds of its own.

    `depths`: tried beside nothing frozen; others take the rate of the nearest that was tried. What the store has of the
    trials is not run again.

    Raises:
        ConfigError: The rates are no numbers above 0.
    """
    rates = rates_of(asked, float(question.recipe["optim"]["lr"]))
    plan = plan_beside(path, "rates-", question.rates_text(rates, depths), launch, lookup)
    start = time.monotonic()
    if plan.ahead:
        launch.say(f"rates   trying {_listed(rates)} in {counted(len(plan.ahead), 'trial')} first")
        with launch.run(plan):
            pass
    best = _best_rates(plan.trials, launch.results)
    if NOTHING not in best:
        launch.say(f"rates   no time was left to try them; all depths have {question.recipe['optim']['lr']:g}")
        return question
    text = ", ".join(f"{'none' if depth == NOTHING else f'first {depth}'} {rate:g}" for depth, rate in best.items())
    took = f" ({duration(time.monotonic() - start)})" if plan.ahead else ""
    launch.say(f"rates   {text}: best on dev, on seeds that the answer does not use{took}")
    if len(set(best.values())) == 1:
        optim = {**question.recipe["optim"], "lr": best[NOTHING]}
        return replace(question, recipe={**question.recipe, "optim": optim}, rates={})
    n_layers = plan.trials[0].model.n_layers
    return replace(question, rates={depth: nearest(best, depth) for depth in (NOTHING, *range(n_layers + 1))})


def _depths_to_rate(asked: str, n_layers: int) -> list[int]:
    """The depths at which rates are tried: some that span the encoder, with `auto` one deep freeze alone."""
    depths = [depth for depth in spread(n_layers + 1) if depth]
    return depths[-2:-1] or depths if asked == AUTO else depths


def _say_rates(
    question: Question, asked: str, depths: Sequence[int], path: Path, launch: Launch, lookup: Lookup
) -> None:
    """Print which rates would be tried first, and how long that takes. Raises ConfigError as `with_best_rates`."""
    from orchestrator.forecast.forecast import forecast_of

    rates = rates_of(asked, float(question.recipe["optim"]["lr"]))
    plan = plan_beside(path, "rates-", question.rates_text(rates, depths), launch, lookup)
    launch.say(f"rates   {_listed(rates)} would be tried first, in {counted(len(plan.ahead), 'trial')}")
    if plan.ahead and (forecast := forecast_of(plan, launch.results, launch.where)).wall_s:
        launch.say(f"        {forecast.line}")


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)


def plan_beside(path: Path, word: str, text: str, launch: Launch, lookup: Lookup) -> Plan:
    """The plan of the sweep of that text, named after the file of a question. Raises as `Launch.plan`."""
    beside = path.with_name(path.name.replace("choose-", word, 1))
    return launch.plan(*sweep_of_text(beside, text), lookup)


def rates_of(asked: str, usual: float) -> list[float]:
    """The rates that `--rates` names, ascending. Raises ConfigError."""
    if asked == AUTO:
        return [float(f"{usual * factor:.2g}") for factor in _AROUND]
    try:
        rates = sorted({float(word) for word in asked.split(",")})
    except ValueError:
        rates = []
    if len(rates) < 2 or not all(0 < rate < np.inf for rate in rates):
        raise ConfigError(f"--rates {asked}: give two or more rates above 0, as in 2e-5,5e-5,1e-4, or {AUTO}.")
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

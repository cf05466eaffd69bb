"""As much of train as the time of `choose` allows, by the forecast of a curve of depths."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.api.questions import sized
from orchestrator.config.quantities import HOUR, duration
from orchestrator.own_data.question import Question
from orchestrator.own_data.sweep_file import SweepFile
from orchestrator.search.choose_depth import spread
from orchestrator.search.depth_search import Depths
from orchestrator.session.session import Launch
from orchestrator.sweeps.load_sweep import load_sweep, sweep_of_text
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast

SPARE = 0.9  # of the time, so that a forecast that is a little off still ends in it
PILOTS = 3  # shapes that are timed; the cost model has the depths between, as the time is for the curve
FEWEST = 100  # train items; fewer say little about a freeze
_FITS = 2  # how often a part of train is tried: fewer items may take more epochs


def fitting(
    question: Question, path: Path, launch: Launch, lookup: Lookup, *, fits: bool
) -> tuple[Plan, Forecast, Question]:
    """The plan and its forecast, on all of train unless not even a curve would end in the time; `fits`: as it is.

    A part that was taken for less time is given up where a curve on all of train fits now. Without past trials on this
    device pilots of a few dozen steps are timed, each once.
    """
    from orchestrator.forecast.forecast import forecast_of
    from orchestrator.forecast.forecast_text import forecast_line
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
    if question.hours is not None and hours > question.hours and not fits:
        whole = replace(sized(question, lookup, None), hours=None)
        all_of_it = planned(whole)
        if all_of_it[-1] <= SPARE * launch.time_left:
            question, (plan, forecast, curve_s) = whole, all_of_it
            launch.say(
                f"data    all {plan.trials[0].train_size:,} for training, as --max-hours {hours:g} has time for them"
            )
    has_file = kept.asks_alike(question.asked)
    n_train = max((spec.train_size for spec in plan.trials), default=0)
    for _ in range(0 if fits or has_file else _FITS):
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
        launch.say(f"{forecast_line(forecast)}, if every trial were needed{curve}")
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
    seconds = {i: cell.seconds.median for cell in forecast.cells if cell.seconds for i in cell.trials}
    share = sum(seconds.get(i, 0.0) for i in first) / max(sum(seconds.values()), 1e-9)
    return share * forecast.wall_s.median


def _hours(seconds: float) -> float:
    """Hours, rounded up to two digits."""
    return max(math.ceil(100 * seconds / HOUR) / 100, 0.01)


def _rounded(n: float) -> int:
    """Two digits, rounded down."""
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(n // step * step)

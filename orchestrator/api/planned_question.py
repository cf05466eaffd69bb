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
from orchestrator.api.time_budget import PILOTS, TimeBudget
from orchestrator.config.quantities import counted, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import LARGER_SHARE
from orchestrator.own_data.question import NOTHING, Question, SweepFile, as_before, question_of
from orchestrator.search.choose_depth import spread
from orchestrator.session.launch_loop import Launch
from orchestrator.session.tables import plan_lines
from orchestrator.store import ResultStore
from orchestrator.sweeps.dev_resolution import dev_note, resolved
from orchestrator.sweeps.load_sweep import sweep_of_text
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.record import State
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast

BEST = "best"  # of `--export`: what is decided, else what the curve recommends
FOLDS = 5  # that are proposed
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
    from orchestrator.forecast.pilot import Pilots

    with launch.lookup(offline=asked.offline) as lookup:

        def question_about(options: ChooseOptions) -> Question:
            base = question_of(as_before(options, folder, launch.say), lookup, launch.say)
            return replace(base, asked=options.question, folder=folder)

        question, pilots = question_about(asked), Pilots(launch.say, PILOTS)  # each shape is timed once
        _refuse_files(asked, folder, question)
        asked, timed = TimeBudget(folder, launch, lookup, pilots).fit(asked, question)
        launch = launch.with_hours(asked.max_hours)
        if (changed := _agreed(asked, timed.question, folder, launch.say)) != asked:
            _refuse_files(changed, folder, question)
            asked, timed = TimeBudget(folder, launch, lookup, pilots).fit(changed, question_about(changed))
            launch = launch.with_hours(asked.max_hours)
        question, plan = timed.question, timed.plan
        path = folder / f"{question.name}.yaml"
        kept = SweepFile(path)
        is_again = kept.asks(asked.question)
        n_layers = plan.trials[0].model.n_layers
        if asked.rates is not None and asked.dry_run:
            _say_rates(question, asked.rates, _depths_to_rate(asked.rates, n_layers), path, launch, lookup)
        elif asked.rates is not None:  # what the store has of them is not run again
            depths = _depths_to_rate(asked.rates, n_layers)
            question = with_best_rates(question, asked.rates, depths, path, launch, lookup)
            plan = launch.plan(*sweep_of_text(path, question.sweep_text()), lookup)
    return PlannedQuestion(asked, question, path, is_again and kept.holds(question), plan, timed.forecast)


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
        printed.add(f"note    {dev_note(question.corpus.task, question.corpus.spec, asked.tolerance, question.seeds)}")
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


def _agreed(asked: ChooseOptions, question: Question, folder: Path, say: Callable[[str], None]) -> ChooseOptions:
    """The options, which a person may change on reading that dev cannot decide the tolerance.

    With nobody to ask they stay as they are, and a note says so.
    """
    task, data = question.corpus.task, question.corpus.spec
    share = worth_holding_out(question)
    note = dev_note(task, data, asked.tolerance, question.seeds, share)
    if note is None or SweepFile(folder / f"{question.name}.yaml").asks(asked.question):
        return asked
    say(f"note    {note}")
    tolerance = math.ceil(2 * min(resolved(task, data, question.seeds), 100)) / 2
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
    return LARGER_SHARE if not is_fixed and LARGER_SHARE * (n_train + n_dev) > 1.5 * n_dev else None


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

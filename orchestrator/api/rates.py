"""What runs beside the search of `choose`: learning rates before it, adapters after it.

Each depth has its own best learning rate: rates are tried first, on seeds that the answer does not use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from orchestrator.config.quantities import counted, duration
from orchestrator.config.yaml_document import Document
from orchestrator.own_data.question import NOTHING, Question
from orchestrator.search.choose_depth import spread
from orchestrator.session.session import Launch
from orchestrator.store import ResultStore
from orchestrator.sweeps.load_sweep import sweep_of_text
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.spec import TrialSpec
from trials.state import State

AUTO = "auto"
_AROUND = (0.4, 1.0, 2.5)  # of the recipe's rate, with `auto`
_ABOVE = (2.5, 6.0)  # of the highest rate tried, where nothing was learned


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
    plan = launch.plan(*sweep_beside(path, "rates-", question.rates_text(rates, depths)), lookup)
    start = time.monotonic()
    if plan.ahead:
        launch.say(f"rates   trying {_listed(rates)} in {counted(len(plan.ahead), 'trial')} first")
        with launch.run(plan):
            pass
    best = best_rates(plan.trials, launch.results)
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


def depths_to_rate(asked: str, n_layers: int) -> list[int]:
    """The depths at which rates are tried: some that span the encoder, with `auto` one deep freeze alone."""
    depths = [depth for depth in spread(n_layers + 1) if depth]
    return depths[-2:-1] or depths if asked == AUTO else depths


def say_rates(
    question: Question, asked: str, depths: Sequence[int], path: Path, launch: Launch, lookup: Lookup
) -> None:
    """Print which rates would be tried first, and how long that takes. Raises ConfigError as `with_best_rates`."""
    from orchestrator.forecast.forecast import forecast_of
    from orchestrator.forecast.forecast_text import forecast_line

    rates = rates_of(asked, float(question.recipe["optim"]["lr"]))
    plan = launch.plan(*sweep_beside(path, "rates-", question.rates_text(rates, depths)), lookup)
    launch.say(f"rates   {_listed(rates)} would be tried first, in {counted(len(plan.ahead), 'trial')}")
    if plan.ahead and (forecast := forecast_of(plan, launch.results, launch.where)).is_known:
        launch.say(f"        {forecast_line(forecast)}")


def _listed(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)


def sweep_beside(path: Path, word: str, text: str) -> tuple[SweepSpec, Document]:
    """The sweep of that text, named after the file of a question."""
    return sweep_of_text(path.with_name(path.name.replace("choose-", word, 1)), text)


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


def best_rates(trials: Sequence[TrialSpec], results: ResultStore) -> dict[int, float]:
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

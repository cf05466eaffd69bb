"""What runs beside the search of `choose`: learning rates before it, adapters after it.

Each depth has its own best learning rate: rates are tried first, on seeds that the answer does not use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from orchestrator.api.answering import Answers
from orchestrator.api.launching import Course
from orchestrator.config.console import say
from orchestrator.config.quantities import counted, duration
from orchestrator.config.yaml_document import Document
from orchestrator.own_data.sweep_file import NOTHING, Question, lora_text, rates_text
from orchestrator.search.choose_depth import spread
from orchestrator.store import ResultStore
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.settings import LoraSpec
from trials.spec import TrialSpec
from trials.state import State

AUTO = "auto"
_AROUND = (0.4, 1.0, 2.5)  # of the recipe's rate, with `auto`
_ABOVE = (2.5, 6.0)  # of the highest rate tried, where nothing was learned


def with_best_rates(
    question: Question,
    asked: str,
    n_layers: int,
    path: Path,
    course: Course,
    lookup: Lookup,
) -> Question:
    """The question with the rate of each depth that scored best on dev, by mean over the seeds of `rates_text`.

    Tried are nothing frozen and depths that span the encoder, with `auto` one deep freeze alone; others take the rate
    of the nearest that was tried.

    Raises:
        ConfigError: The rates are no numbers above 0.
    """
    rates = rates_of(asked, float(question.recipe["optim"]["lr"]))
    depths = [depth for depth in spread(n_layers + 1) if depth]
    if asked == AUTO:
        depths = depths[-2:-1] or depths
    plan = course.plan(_sweep_beside(path, "rates-", rates_text(question, rates, depths)), lookup)
    start = time.monotonic()
    say(f"rates   trying {', '.join(f'{rate:g}' for rate in rates)} in {counted(len(plan.to_run), 'trial')} first")
    with course.run(plan):
        best = best_rates(plan.trials, course.results)
    if NOTHING not in best:
        say(f"rates   no time was left to try them; all depths have {question.recipe['optim']['lr']:g}")
        return question
    text = ", ".join(f"{'none' if depth == NOTHING else f'first {depth}'} {rate:g}" for depth, rate in best.items())
    say(f"rates   {text}: best on dev, on seeds that the answer does not use ({duration(time.monotonic() - start)})")
    if len(set(best.values())) == 1:
        optim = {**question.recipe["optim"], "lr": best[NOTHING]}
        return replace(question, recipe={**question.recipe, "optim": optim})
    return replace(question, rates={depth: nearest(best, depth) for depth in (NOTHING, *range(n_layers + 1))})


def _sweep_beside(path: Path, word: str, text: str) -> Document:
    """The sweep of that text, named after the file of a question."""
    return Document.of_text(path.with_name(path.name.replace("choose-", word, 1)), text)


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


# What rivals freezing, under the baseline's seeds: low-rank adapters.

TIME = 0.25  # share of the time that is kept for adapters
TIMES_RATE = 10.0  # of the rate that trains the weights themselves: Hu et al. 2021 (table 9) have 4e-4 to 5e-4
FEWEST = 3  # seeds


def with_lora(
    answers: Answers, question: Question, searched: Plan, path: Path, course: Course, lookup: Lookup
) -> tuple[Answers, int]:
    """The answers with a row for adapters, and the exit code of their sweep.

    They have as many seeds as the baseline, at least three, as far as the time goes.

    Raises as `launch`.
    """
    from orchestrator.analysis.answer import beside  # loads pandas

    rate = float(f"{TIMES_RATE * float(question.rates.get(NOTHING, question.recipe['optim']['lr'])):.3g}")
    rows = course.results.trials(["trial_id", "state"]).to_pylist()
    done = {row["trial_id"] for row in rows if row["state"] == State.COMPLETED}
    seeds = [spec.seed for spec in searched.trials if spec.freeze.is_baseline]
    n = sum(spec.freeze.is_baseline and spec.trial_id in done for spec in searched.trials)
    text = lora_text(question, LoraSpec().rank, rate, seeds[: max(n, FEWEST)])
    plan = course.plan(_sweep_beside(path, "lora-", text), lookup)
    trials = counted(len(plan.to_run), "trial")
    say(f"lora    {trials} of adapters of rank {LoraSpec().rank} in every layer, at a learning rate of {rate:g}")
    with course.run(plan) as ended:
        frame = course.results.evidence(plan.trials).frame
    baseline = next(spec.cell_id for spec in plan.trials if spec.freeze.is_baseline)
    labels = {spec.cell_id: f"LoRA {spec.lora.label}" for spec in plan.trials if spec.lora is not None}
    frame = frame.assign(freeze=frame["cell"].map(labels).fillna(frame["freeze"]))
    rows_of = tuple(beside(frame, baseline, searched.sweep.decision_plan))
    return Answers(replace(answer, settings=answer.settings + rows_of) for answer in answers), ended.exit_code

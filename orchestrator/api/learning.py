"""A baseline that has not learned answers nothing: what is likely to help is tried, before any further freeze is.

In this order, each rung on top of those before it, until the baseline learns or the time is over: all of train, where a
part was taken; three times the epochs; learning rates around that of the recipe, then above them. A rung trains nothing
but the baseline under its first seeds, which the sweep of the question uses again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from orchestrator.api.planned_question import PlannedQuestion
from orchestrator.api.questions import sized
from orchestrator.api.rates import AUTO, higher_rates, sweep_beside, with_best_rates
from orchestrator.config.quantities import duration
from orchestrator.own_data.question import Question
from orchestrator.own_data.sweep_file import SweepFile
from orchestrator.session.session import Launch
from orchestrator.sweeps.load_sweep import sweep_of_text
from trials.draft import Lookup

if TYPE_CHECKING:  # loads pandas
    from orchestrator.analysis.decided import Baseline

MORE_EPOCHS = 3  # times those of the recipe


def climbed(planned: PlannedQuestion, baseline: Baseline, launch: Launch, lookup: Lookup) -> PlannedQuestion:
    """The question on the first rung on which its baseline learns, written to its file; as it was where none does."""
    from orchestrator.analysis.wording import not_learned  # loads pandas

    question, start = planned.question, time.monotonic()
    for what, change in _rungs(planned, launch, lookup):
        if launch.time_left <= 0:
            return planned
        launch.say(f"learn   {not_learned(baseline)}; trying {what}")
        question = change(question)
        tried = _baseline(question, planned, launch, lookup)
        if tried is None:
            return planned
        baseline = tried
        if baseline.has_learned:
            took = duration(time.monotonic() - start)
            launch.say(f"learn   with {what} the baseline learns: {baseline.score:.2f} on dev ({took})")
            SweepFile(planned.path).write(question.sweep_text())
            plan = launch.plan(*sweep_of_text(planned.path, question.sweep_text()), lookup)
            return planned._replace(question=question, plan=plan)
    if launch.time_left > 0:  # else the last rung was not tried to its end
        launch.say(f"learn   {not_learned(baseline)}, whatever was tried")
    return planned


Rung = tuple[str, Callable[[Question], Question]]


def _rungs(planned: PlannedQuestion, launch: Launch, lookup: Lookup) -> Iterator[Rung]:
    """What is tried and how it changes the question, from the likeliest to help."""
    question, asked = planned.question, planned.asked
    of_recipe = sized(question, lookup, None)
    if question.train_size is not None and not asked.models:  # several encoders are compared at one train size
        yield "all of train", lambda before: replace(sized(before, lookup, None), hours=None)
    usual = int(of_recipe.recipe["optim"]["epochs"])
    if int(question.recipe["optim"]["epochs"]) <= usual:
        yield f"{MORE_EPOCHS * usual} epochs", lambda before: _with_epochs(before, MORE_EPOCHS * usual)
    rate = float(of_recipe.recipe["optim"]["lr"])
    first = AUTO if asked.rates is None else higher_rates(asked.rates, rate)
    for rates in (first, higher_rates(first, rate)):
        yield (
            f"learning rates {'around' if rates == AUTO else 'above'} {rate:g}",
            lambda before, rates=rates: with_best_rates(before, rates, (), planned.path, launch, lookup),  # type: ignore[misc]
        )


def _with_epochs(question: Question, epochs: int) -> Question:
    return replace(question, recipe={**question.recipe, "optim": {**question.recipe["optim"], "epochs": epochs}})


def _baseline(question: Question, planned: PlannedQuestion, launch: Launch, lookup: Lookup) -> Baseline | None:
    """What the baseline of a question learns under its first seeds; None if it was stopped before all had ended."""
    from orchestrator.analysis.decide import baseline_of  # loads pandas

    seeds = list(dict.fromkeys(spec.seed for spec in planned.plan.trials))
    text = question.baseline_text(seeds[: planned.plan.sweep.decision_plan.min_seeds])
    plan = launch.plan(*sweep_beside(planned.path, "baseline-", text), lookup)
    if plan.ahead:
        with launch.run(plan) as ended:
            if ended.stop.asked:
                return None
    return baseline_of(launch.results.evidence(plan.trials).frame)

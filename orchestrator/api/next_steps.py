"""What may follow a search of `choose`: rungs that may help its baseline to learn, and whole commands for a person.

A baseline that has not learned answers nothing: what is likely to help is tried, before any further freeze is. In this
order, each rung on top of those that raised its score, until the baseline learns or the time is over: all of train,
where a part was taken; three times the epochs; learning rates around that of the recipe, then above them. A rung trains
nothing but the baseline under its first seeds, which the sweep of the question uses again.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.analysis.wording import bought_text, tolerance_that_buys
from orchestrator.api.answering import Answers
from orchestrator.api.planned_question import (
    AUTO,
    PILOTS,
    PlannedQuestion,
    TimeBudget,
    finest_tolerance,
    higher_rates,
    model_folder,
    plan_beside,
    tells_more,
    ways_to_score_more,
    with_best_rates,
)
from orchestrator.config.quantities import HOUR, amount, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import Question, SweepFile, with_size
from orchestrator.session.launch_loop import Launch
from trials.draft import Lookup

if TYPE_CHECKING:  # loads pandas
    from orchestrator.analysis.answer import Answer
    from orchestrator.analysis.decide import Baseline

MORE_EPOCHS = 3  # times those of the recipe
_TO_LEARN = "tries what else may help the baseline to learn: more epochs, then other learning rates"


class Climbed(NamedTuple):
    """What came of the rungs.

    Attributes:
        planned: The question on the first rung on which its baseline learns, written to its file; else as it was.
        baseline: The best that was tried.
        is_over: Whether every rung was tried to its end.
    """

    planned: PlannedQuestion
    baseline: Baseline
    is_over: bool


def climb(planned: PlannedQuestion, baseline: Baseline, launch: Launch, lookup: Lookup) -> Climbed:
    """Try the rungs for a baseline that has not learned."""
    from orchestrator.analysis.wording import not_learned  # loads pandas
    from orchestrator.forecast.pilot import Pilots

    question, best, start = planned.question, "", time.monotonic()
    for what, change in _rungs(planned, launch, lookup):
        if launch.time_left <= 0:
            return Climbed(planned, baseline, is_over=False)
        launch.say(f"learn   {not_learned(baseline)}; trying {what}")
        changed = change(question)
        tried = _baseline(changed, planned, launch, lookup)
        if tried is None:
            return Climbed(planned, baseline, is_over=False)
        if tried.has_learned:
            took = duration(time.monotonic() - start)
            launch.say(f"learn   with {what} the baseline learns: {tried.score:.2f} on dev ({took})")
            timed = TimeBudget(planned.path.parent, launch, lookup, Pilots(launch.say, PILOTS)).fit_again(changed)
            SweepFile(planned.path).write(timed.question.sweep_text())
            return Climbed(planned._replace(question=timed.question, plan=timed.plan), tried, is_over=True)
        if not tried.score <= baseline.score:  # it has one, or the first that there is
            question, baseline, best = changed, tried, f"; best with {what}"
    if is_over := launch.time_left > 0:  # else the last rung was not tried to its end
        launch.say(f"learn   {not_learned(baseline)}, whatever was tried{best}")
    return Climbed(planned, baseline, is_over)


Rung = tuple[str, Callable[[Question], Question]]


def _rungs(planned: PlannedQuestion, launch: Launch, lookup: Lookup) -> Iterator[Rung]:
    """The steps that may make a baseline learn, the most promising first, and how each changes the question."""
    question, options = planned.question, planned.options
    of_recipe = with_size(question, lookup, None)
    if question.train_size is not None:
        yield "all of train", lambda before: replace(with_size(before, lookup, None), part=None)
    usual = int(of_recipe.recipe["optim"]["epochs"])
    if int(question.recipe["optim"]["epochs"]) <= usual:
        yield f"{MORE_EPOCHS * usual} epochs", lambda before: _with_epochs(before, MORE_EPOCHS * usual)
    rate = float(of_recipe.recipe["optim"]["lr"])
    first = AUTO if options.rates is None else higher_rates(options.rates, rate)
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
    from orchestrator.forecast.forecast import forecast_of

    seeds = list(dict.fromkeys(spec.seed for spec in planned.plan.trials))
    text = question.baseline_text(seeds[: planned.plan.sweep.decision_plan.min_seeds])
    plan = plan_beside(planned.path, "baseline-", text, launch, lookup)
    if plan.workload:
        wall = forecast_of(plan, launch.results, launch.where).wall_s  # by the trials that have run, not by pilots
        if wall is not None and wall.median > launch.time_left:
            takes, left = duration(wall.median), duration(max(launch.time_left, 0.0))
            launch.say(f"learn   that takes about {takes}, of which {left} are left: the next command goes on with it")
        with launch.run(plan) as ended:
            if ended.stop.asked:
                return None
    return baseline_of(launch.results.evidence(plan.trials).frame)


class NextStep(NamedTuple):
    """A complete command to paste, and what it is for."""

    command: str
    brings: str


def next_steps(
    planned: PlannedQuestion, answers: Answers, launch: Launch, climbed: Climbed | None = None, *, is_over: bool
) -> Iterator[NextStep]:
    """What the user may do next: train what is recommended, go on unless the search is over, or ask anew."""
    options, question = planned.options, planned.question
    decided = any(answer.freeze is not None for answer in answers)
    unlearned = any(answer.outcome == "not learned" for answer in answers)
    if decided and options.export is None:
        yield _train_step(options, question.name)
    if question.part is not None:
        hours = max(question.part.of_all, 2 * options.max_hours if unlearned else 0.0)
        changes = ": what was decided may change" if decided else ""
        instead = "" if question.train_size is None else f" in place of the first {question.train_size:,}"
        brings = f"asks on all of train{instead}{' and at every depth' if question.depths else ''}{changes}"
        yield NextStep(options.command(max_hours=hours), brings)
    if unlearned and climbed is not None and climbed.is_over:
        score, constant = climbed.baseline.score, climbed.baseline.constant
        if score > constant:  # by chance, as far as this dev split tells
            yield from _larger_dev(planned, f"may show that {score:.1f} is above {constant:.1f}")
    elif unlearned and question.part is None:
        yield NextStep(options.command(max_hours=2 * options.max_hours), _TO_LEARN)
    asked_well = [answer for answer in answers if not answer.decided_by.is_vacuous]
    open_ones = any(not answer.decided or answer.further_seeds for answer in asked_well)
    larger = list(_larger_dev(planned)) if open_ones else []
    seeds_tell = all(answer.decided_by.twin is None for answer in answers)
    yield from [] if seeds_tell else larger
    if (open_ones or not answers) and question.part is None and not (is_over or unlearned):
        yield from _resume_steps(planned, launch, asked_well)
    for answer in answers:
        yield from _seeds_beyond(planned, answer)
        yield from other_tolerance(options, answer, question.name)
    yield from larger if seeds_tell else []


def _larger_dev(planned: PlannedQuestion, shows: str = "") -> Iterator[NextStep]:
    """Ways to have more examples score, where dev is nobody else's too: a larger share of train, or folds.

    `shows`: what that does; else those that tell smaller losses, where dev cannot tell the tolerance.
    """
    question, tolerance = planned.question, planned.options.tolerance
    now = finest_tolerance(question)
    for way in ways_to_score_more(question, planned.options).values():
        if shows or (now > tolerance and tells_more(question, way)):
            then = finest_tolerance(question, held_out=way.held_out, folds=way.folds)
            in_folds = f"{way.folds} folds, so that every example serves"
            words = in_folds if way.folds else f"{way.held_out:.0%} of train as dev"
            not_now = f", not {now:.2g}" if math.isfinite(now) else ""
            tells = shows or f"shows a freeze that loses nothing to be within about {then:.2g} points{not_now}"
            yield NextStep(way.command(), f"asks again with {words}, which {tells}")


def _train_step(options: ChooseOptions, sweep: str) -> NextStep:
    where = ("--store", options.store, "--sweep", sweep, "-o", model_folder(sweep))
    command = ("permafrost", "train", *where, *options.machine)
    return NextStep(shlex.join(command), "trains the recommended setting on all of train and exports the model")


def _resume_steps(planned: PlannedQuestion, launch: Launch, answers: Sequence[Answer]) -> Iterator[NextStep]:
    """The step that goes on: the same command, with as much time as the remaining trials may take, if any."""
    from orchestrator.forecast.forecast import forecast_of

    options, plan = planned.options, planned.plan.without_completed(launch.results)
    if not plan.workload:
        return
    wall, hours, took = forecast_of(plan, launch.results, launch.where).wall_s, 2 * options.max_hours, ""
    if wall is not None:
        hours = max(math.ceil(100 * wall.high / HOUR) / 100, 0.01)
        took = f", {duration(wall.median)}"
    n, seeds = amount(len(plan.workload), "trial"), amount(planned.question.seeds, "planned seed")
    goes_on = f"goes on to the {seeds} where they decide"
    if answers and not any(answer.decided_by.may_be_decided for answer in answers):  # as their words say
        goes_on = f"runs the rest of the {seeds}, which are unlikely to decide"
    yield NextStep(options.command(max_hours=hours), f"{goes_on}: at most {n}{took}")


def _seeds_beyond(planned: PlannedQuestion, answer: Answer) -> Iterator[NextStep]:
    """Seeds beyond the plan, where all of it has run and they would probably decide; with what they cost in width."""
    from orchestrator.analysis.prospects import growth_text  # loads scipy

    question, more = planned.question, answer.further_seeds
    if answer.decided or not more or int(answer.decided_by.table["n_run"].max()) < question.seeds:
        return
    seeds, sizes = question.seeds + more, question.corpus.spec.sizes
    where = ("--sweep", str(planned.path), "--store", planned.options.store, *planned.options.machine)
    command = ("permafrost", "launch", *where, "--set", f"seeds={list(range(seeds))}")
    brings = f"adds {amount(more, 'seed')} beyond the {question.seeds} planned, which would probably decide"
    cost = "" if sizes is None else f"; {growth_text(question.corpus.task, sizes[1], question.seeds, seeds)}"
    yield NextStep(shlex.join(command), f"{brings}{cost}")


def other_tolerance(options: ChooseOptions, answer: Answer, sweep: str) -> Iterator[NextStep]:
    """How to see the answer at a tolerance of its list that is met now, where the one that was asked for is not: the
    next above it, or the largest of the list where the one that was asked for gives up all that was learned. Where the
    list has none then, a question about half of what was learned.
    """
    is_vacuous, gain = answer.decided_by.is_vacuous, answer.decided_by.baseline.gain
    every = answer.decided_by.trade_offs
    beyond = [bought for bought in every if is_vacuous or bought.tolerance > options.tolerance]
    if answer.freeze is not None or answer.outcome == "not learned":
        return
    if beyond:
        met = beyond[-1 if is_vacuous else 0]
        brings = f"is decided with the trials at hand: {bought_text(met, answer.n_layers)}"
        limit = f"{tolerance_that_buys(met.tolerance):g}"  # `choose` would look for a deeper freeze first, and run on
        yield NextStep(
            shlex.join(("permafrost", "answer", "--store", options.store, "--sweep", sweep, "--tolerance", limit)),
            brings,
        )
    elif is_vacuous and (half := math.floor(5 * gain) / 10) > 0:
        brings = f"asks within half of the {gain:.1f} points that were learned: a larger tolerance gives up more"
        yield NextStep(options.command(tolerance=half), brings)

"""What somebody may do after `choose`: whole commands, to be pasted, the most useful first."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.analysis.wording import bought_text
from orchestrator.api.answering import Answers
from orchestrator.api.dev_choice import FOLDS, worth_holding_out
from orchestrator.api.planned_question import PlannedQuestion, model_folder
from orchestrator.api.rates import AUTO, higher_rates
from orchestrator.api.train_share import all_of_train_hours
from orchestrator.config.quantities import HOUR, counted, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import SEEDS
from orchestrator.session.session import Launch
from orchestrator.sweeps.dev_resolution import resolved
from orchestrator.sweeps.plan import brought_up_to_date
from trials.draft import Lookup
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer

_TO_LEARN = "tries what else may help the baseline to learn: more epochs, then other learning rates"


class NextStep(NamedTuple):
    """A command, whole, to be pasted, and what it is for."""

    command: str
    brings: str


def next_steps(planned: PlannedQuestion, answers: Answers, launch: Launch) -> Iterator[NextStep]:
    """What somebody may do now: train what is recommended, go on, or ask something that can be decided."""
    asked, question = planned.asked, planned.question
    decided = any(answer.freeze is not None for answer in answers)
    unlearned = any(answer.outcome == "not learned" for answer in answers)
    if decided and asked.export is None:
        yield _train_step(asked, question.name)
    if (hours := all_of_train_hours(question, planned.path, launch, Lookup(offline=asked.offline))) is not None:
        changes = ": what was decided may change" if decided else ""
        brings = f"asks on all of train in place of the first {question.train_size:,}{changes}"
        yield NextStep(asked.command(max_hours=hours), brings)
    if unlearned and launch.time_left > 0:
        rates = higher_rates(asked.rates or AUTO, float(question.recipe["optim"]["lr"]))
        yield NextStep(
            asked.command(rates=rates), "tries higher learning rates, as the baseline has not learned the task"
        )
    open_ones = any(not answer.decided or answer.further_seeds != 0 for answer in answers)
    coarse = resolved(question.corpus.task, question.corpus.spec, SEEDS) > asked.tolerance
    # A baseline that has not learned from all of train learns no more from a part.
    would_help = open_ones and coarse and asked.held_out is None and not unlearned
    share = worth_holding_out(question) if would_help else None
    larger = []
    if share is not None:
        brings = f"asks again with {share:.0%} of train as dev, which tells smaller losses"
        in_folds = f"asks again with {FOLDS} folds, so that every example serves, which tells still smaller ones"
        larger = [NextStep(asked.command(held_out=share), brings), NextStep(asked.command(folds=FOLDS), in_folds)]
    seeds_tell = all(answer.decided_by.alike is None for answer in answers)
    yield from [] if seeds_tell else larger
    if (open_ones or not answers) and hours is None:
        for step in _going_on([planned], launch):
            yield step._replace(brings=_TO_LEARN) if unlearned and launch.time_left <= 0 else step
    for answer in answers:
        yield from other_tolerance(asked, answer)
    yield from larger if seeds_tell else []


def steps_over_models(
    over_all: Answer | None, specs: Mapping[str, TrialSpec], plans: Sequence[PlannedQuestion], launch: Launch
) -> Iterator[NextStep]:
    """Train the recommended pair, or go on."""
    chosen = None if over_all is None else over_all.decided_by.chosen
    if chosen is not None:
        spec = specs[chosen["cell"]]
        of = next(planned for planned in plans if planned.plan.trials[0].model == spec.model)
        yield _train_step(of.asked, of.question.name, "--freeze", spec.freeze.label)
    if over_all is None or not over_all.decided or over_all.further_seeds != 0:
        yield from _going_on(plans, launch)


def _train_step(asked: ChooseOptions, sweep: str, *extra: str) -> NextStep:
    where = ("--store", asked.store, "--sweep", sweep, *extra, "-o", model_folder(sweep))
    command = ("permafrost", "train", *where, *asked.machine)
    return NextStep(shlex.join(command), "trains the recommended setting on all of train and exports the model")


def _going_on(plans: Sequence[PlannedQuestion], launch: Launch) -> Iterator[NextStep]:
    """The same command, with as much time as what is left may take; nothing where nothing is."""
    from orchestrator.forecast.forecast import forecast_of

    asked, left = plans[0].asked, [brought_up_to_date(planned.plan, launch.results) for planned in plans]
    if not (n := sum(len(plan.ahead) for plan in left)):
        return
    walls = [forecast_of(plan, launch.results, launch.where).wall_s for plan in left if plan.ahead]
    known_walls = [wall for wall in walls if wall is not None]
    hours, took = 2 * asked.max_hours, ""
    if len(known_walls) == len(walls):
        hours = max(math.ceil(100 * sum(wall.high for wall in known_walls) / HOUR) / 100, 0.01)
        took = f", {duration(sum(wall.median for wall in known_walls))}"
    yield NextStep(asked.command(max_hours=hours), f"goes on where it stopped: at most {counted(n, 'trial')}{took}")


def other_tolerance(asked: ChooseOptions, answer: Answer) -> Iterator[NextStep]:
    """The tolerance that is met now, where the one that was asked for is not; none that gives up half of what the
    baseline has learned.
    """
    met = next((row for row in answer.trade_offs if row["tolerance"] > asked.tolerance), None)
    if answer.freeze is not None or met is None:
        return
    baseline, limit = answer.decided_by.baseline, math.ceil(10 * met["tolerance"]) / 10
    constant = 0.0 if math.isnan(baseline.constant) else baseline.constant
    if limit < (baseline.score - constant) / 2:
        brings = f"is decided with the trials at hand: {bought_text(met['freeze'], met['saved'], answer.n_layers)}"
        yield NextStep(asked.command(tolerance=limit), brings)

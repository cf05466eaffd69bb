"""From somebody's data to what to freeze on it, in one call."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from orchestrator.analysis.wording import bought_text
from orchestrator.api.adapters import TIME, with_lora
from orchestrator.api.answering import Answers, answers_of
from orchestrator.api.launching import here, outcome_lines, resume_lines
from orchestrator.api.learning import climbed
from orchestrator.api.questions import (
    BEST,
    FOLDS,
    PlannedQuestion,
    all_of_train_hours,
    export_folder,
    model_folder,
    plan_question,
    say_plan,
    worth_holding_out,
)
from orchestrator.api.rates import AUTO, higher_rates, rates_of
from orchestrator.api.training import train
from orchestrator.config.console import INTERRUPTED
from orchestrator.config.notebook import CONSOLE, ShownInCell, notebook_output
from orchestrator.config.quantities import HOUR, counted, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.sweep_file import SEEDS
from orchestrator.session.bounds import Bounds
from orchestrator.session.outcome import Outcome, trials_of
from orchestrator.session.session import Ended, Launch
from orchestrator.store import ResultStore
from orchestrator.sweeps.dev_resolution import resolved
from orchestrator.sweeps.plan import Plan, brought_up_to_date
from trials.draft import Lookup
from trials.errors import ConfigError, unknown
from trials.sources.places.model_draft import named_model
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer
    from orchestrator.forecast.forecast import Forecast


class NextStep(NamedTuple):
    """A command, whole, to be pasted, and what it is for."""

    command: str
    brings: str


@dataclass(frozen=True, repr=False)
class Choice(ShownInCell):
    """What was found out.

    Attributes:
        answers: The answer, alone; empty after a dry run, or where nothing was completed.
        sweep_file: The sweep that asked.
        next: What to do now, each a whole command and what it brings; the most useful first.
        model: The folder of the exported model; None if none was asked for.
        outcome: The trials of the launch, counted; None after a dry run.
        exit_code: As of `permafrost launch`, but 0 where `max_hours` was reached: that was asked for.
        plan: What was to be done.
        forecast: How long all of it takes, from past trials or a pilot.
        stopped: Why the launch stopped early, and what is left; None if it did not.
    """

    answers: Answers
    sweep_file: Path
    next: tuple[NextStep, ...] = ()
    model: Path | None = None
    outcome: Outcome | None = None
    exit_code: int = 0
    plan: Plan | None = None
    forecast: Forecast | None = None
    stopped: str | None = None

    def _draw(self, console: Console) -> None:
        from orchestrator.forecast.forecast_text import forecast_line

        files = {"sweep": self.sweep_file, "model": self.model}
        lines = [str(self.answers), "", *outcome_lines(self.outcome)] if self.outcome is not None else []
        lines += [f"{name:<8}{path}" for name, path in files.items() if path is not None]
        if self.outcome is None and self.forecast is not None:
            lines.append(forecast_line(self.forecast))
        lines += [f"next    {step.command}  # {step.brings}" for step in self.next]
        for line in [*lines, *resume_lines(self.stopped, "choose")]:
            console.print(line, soft_wrap=True)


@notebook_output("stopped; finished trials are in the store. Call `choose` again with the same arguments to resume.")
def choose(options: ChooseOptions | str = "", **others: Any) -> Choice:
    """Find the deepest freeze that loses at most the tolerance on somebody's data.

    Args:
        options: The data and how to look at it; a bare word is `ChooseOptions.data`.
        others: Further attributes of `ChooseOptions`, beside a bare word: `choose("my-corpus", tolerance=0.5)`.

    Raises:
        ConfigError, DataError, ModelError, MissingError, StoreError: Says what is wrong and what to do.
        RefusedError: A file that would be overwritten is not one of this question; nothing has run.
    """
    asked = _options(options, others)
    launch, folder = _begun(asked)
    if asked.models:
        return _over_models(asked, folder, launch)
    planned = plan_question(asked, folder, launch)
    say_plan(planned, launch)
    if asked.dry_run:
        return Choice(Answers(), planned.path, plan=planned.plan, forecast=planned.forecast)
    with_rival, lookup = asked.against is not None, Lookup(offline=asked.offline)
    own = launch.of_time(1 - TIME) if with_rival else launch
    planned, choice, was_stopped = _searched_once_learned(planned, own, lookup)
    if with_rival and not was_stopped:
        answers, code = with_lora(choice.answers, planned.question, planned.plan, planned.path, launch, lookup)
        choice, was_stopped = (
            replace(choice, answers=answers, exit_code=max(choice.exit_code, code)),
            code == INTERRUPTED,
        )
    return _with_model(choice, planned, launch) if planned.asked.export is not None and not was_stopped else choice


def _searched_once_learned(
    planned: PlannedQuestion, launch: Launch, lookup: Lookup
) -> tuple[PlannedQuestion, Choice, bool]:
    """As `_searched`, on the first rung on which the baseline learns, and the question on that rung."""
    choice, was_stopped = _searched(planned, launch)
    while not was_stopped and (better := _learning_more(choice, planned, launch, lookup)) is not None:
        planned = better
        choice, was_stopped = _searched(planned, launch)
    left = brought_up_to_date(planned.plan, launch.results)
    steps = tuple(_next_steps(planned, choice.answers, left, launch))  # now that it is known what was tried
    return planned, replace(choice, next=steps), was_stopped


def _learning_more(choice: Choice, planned: PlannedQuestion, launch: Launch, lookup: Lookup) -> PlannedQuestion | None:
    """The question on a rung on which its baseline learns, where a search has ended without; None if none was found."""
    unlearned = next((answer for answer in choice.answers if answer.outcome == "not learned"), None)
    if unlearned is None:
        return None
    better = climbed(planned, unlearned.decided_by.baseline, launch, lookup)
    return None if better.question == planned.question else better


def _over_models(asked: ChooseOptions, folder: Path, launch: Launch) -> Choice:
    """Each encoder in an equal share of the time, at one train size; then all depths against the best baseline."""
    plans: list[PlannedQuestion] = []
    for model in asked.models:
        asked = replace(plans[-1].asked if plans else asked, model=model)
        plans.append(plan_question(asked, folder, launch.of_time(1 / len(asked.models))))
    fewest = min(planned.train_size for planned in plans)
    plans = [
        planned if planned.train_size == fewest else plan_question(planned.asked, folder, launch, size=fewest)
        for planned in plans
    ]
    for planned in plans:
        say_plan(planned, launch)
    if asked.dry_run:
        return Choice(Answers(), plans[0].path, plan=plans[0].plan, forecast=plans[0].forecast)
    choices, lookup = list[Choice](), Lookup(offline=asked.offline)
    for n, planned in enumerate(plans):
        own = launch.of_time((n + 1) / len(plans))
        plans[n], choice, was_stopped = _searched_once_learned(planned, own, lookup)
        choices.append(choice)
        if was_stopped:
            break
    return _best_of(choices, plans, launch)


def _best_of(choices: Sequence[Choice], plans: Sequence[PlannedQuestion], launch: Launch) -> Choice:
    """The choices of several encoders as one: first the answer over all, then that of each."""
    from orchestrator.analysis.comparisons import across_models  # loads pandas

    trials = launch.results.evidence([spec for planned in plans for spec in planned.plan.trials])
    try:
        over_all = across_models(trials.frame, trials.specs, plans[0].plan.sweep.decision_plan)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error
    first = () if over_all is None else (over_all,)
    return replace(
        choices[-1],
        answers=Answers((*first, *(answer for choice in choices for answer in choice.answers))),
        sweep_file=plans[0].path,
        next=tuple(_steps_over_models(over_all, trials.specs, plans, launch)),
        exit_code=max(choice.exit_code for choice in choices),
    )


def _steps_over_models(
    over_all: Answer | None, specs: Mapping[str, TrialSpec], plans: Sequence[PlannedQuestion], launch: Launch
) -> Iterator[NextStep]:
    """Train the recommended pair, or go on."""
    chosen = None if over_all is None else over_all.decided_by.chosen
    if chosen is not None:
        spec = specs[chosen["cell"]]
        of = next(planned for planned in plans if planned.plan.trials[0].model == spec.model)
        yield _train_step(of.asked, of.question.name, "--freeze", spec.freeze.label)
    if over_all is None or not over_all.decided or over_all.further_seeds != 0:
        yield from _going_on(
            plans[0].asked, [brought_up_to_date(planned.plan, launch.results) for planned in plans], launch
        )


def _begun(asked: ChooseOptions) -> tuple[Launch, Path]:
    """Where and until when it runs, and the folder of its sweep files; options are checked before data are read."""
    where = here(asked.cluster, cpus=asked.cpus, gpus=asked.gpus)
    launch = Launch.begin(where, Bounds(hours=asked.max_hours), asked.store, CONSOLE)
    folder = _folder(asked, launch.results)
    asked.check()
    if asked.rates is not None:
        rates_of(asked.rates, 1.0)
    for model in asked.models or (asked.model,):
        named_model(model)
    return launch, folder


def _searched(planned: PlannedQuestion, launch: Launch) -> tuple[Choice, bool]:
    """The search, to its end or the limit: what came of it, and whether somebody stopped it."""
    plan, results = planned.plan, launch.results
    with launch.run(plan) as ended:
        answers = answers_of(results, trials_of(ended.plan, results), ended.plan.sweep.decision_plan)
        choice = Choice(
            answers,
            planned.path,
            outcome=ended.outcome,
            exit_code=_exit_code(ended),
            plan=ended.plan,
            forecast=planned.forecast,
            stopped=ended.stopped,
        )
    return choice, ended.stop.asked and ended.stop.bound is None


def _exit_code(ended: Ended) -> int:
    """That of the launch; the end of the time that was given is no failure."""
    return int(ended.outcome.failed > 0) if ended.stop.bound is not None else ended.exit_code


def _with_model(choice: Choice, planned: PlannedQuestion, launch: Launch) -> Choice:
    """The choice with the recommended setting, trained and exported; without a decision what the curve recommends, if
    that was asked for, and else nothing.
    """
    asked, freeze = planned.asked, None
    assert asked.export is not None
    if not any(answer.freeze is not None for answer in choice.answers):
        likely = next((answer.decided_by.by_estimate for answer in choice.answers), None)
        if asked.export != BEST or likely is None:
            launch.say(f"model   nothing is exported, as nothing is decided{_instead(likely)}")
            return choice
        freeze = str(likely["freeze"])
        launch.say(f"model   {freeze}: by its mean loss, {likely['loss']:z.2f} points; it is not decided")
    folder = export_folder(asked, planned.question.name)
    machine: dict[str, Any] = {"cluster": asked.cluster, "cpus": asked.cpus, "gpus": asked.gpus}
    model = train(folder, store=asked.store, sweep=planned.question.name, freeze=freeze, **machine)
    return replace(choice, model=model.folder, exit_code=choice.exit_code or model.exit_code)


def _options(options: ChooseOptions | str, others: dict[str, Any]) -> ChooseOptions:
    names = [field.name for field in fields(ChooseOptions)]
    if wrong := [name for name in others if name not in names]:
        raise ConfigError(unknown(wrong[0], names))
    return ChooseOptions(data=options, **others) if isinstance(options, str) else options


def _instead(likely: Mapping[str, Any] | None) -> str:
    """What `--export best` would export."""
    if likely is None:
        return " and no freeze loses so little by its mean"
    return f"; --export {BEST} exports what the curve recommends, {likely['freeze']}"


def _next_steps(planned: PlannedQuestion, answers: Answers, left: Plan, launch: Launch) -> Iterator[NextStep]:
    """What somebody may do now: train what is recommended, go on, or ask something that can be decided."""
    asked, question = planned.asked, planned.question
    decided = any(answer.freeze is not None for answer in answers)
    unlearned = any(answer.outcome == "not learned" for answer in answers)
    if decided and asked.export is None:
        yield _train_step(asked, question.name)
    if (hours := all_of_train_hours(planned, launch, Lookup(offline=asked.offline))) is not None:
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
        for step in _going_on(asked, [left], launch):
            yield step._replace(brings=_TO_LEARN) if unlearned and launch.time_left <= 0 else step
    for answer in answers:
        yield from other_tolerance(asked, answer)
    yield from larger if seeds_tell else []


_TO_LEARN = "tries what else may help the baseline to learn: more epochs, then other learning rates"


def _train_step(asked: ChooseOptions, sweep: str, *extra: str) -> NextStep:
    where = ("--store", asked.store, "--sweep", sweep, *extra, "-o", model_folder(sweep))
    command = ("permafrost", "train", *where, *asked.machine)
    return NextStep(shlex.join(command), "trains the recommended setting on all of train and exports the model")


def _going_on(asked: ChooseOptions, left: Sequence[Plan], launch: Launch) -> Iterator[NextStep]:
    """The same command, with as much time as what is left may take; nothing where nothing is."""
    from orchestrator.forecast.forecast import forecast_of

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


def _folder(asked: ChooseOptions, results: ResultStore) -> Path:
    """Where the sweep's file goes: beside a store in a folder."""
    if asked.out is not None:
        return Path(asked.out)
    address = str(results.address)
    return Path() if "://" in address else Path(address).parent

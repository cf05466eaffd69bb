"""Find out what to freeze on a user's own data, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from orchestrator.api.answering import Answers, answers_of
from orchestrator.api.launching import outcome_lines, resume_lines
from orchestrator.api.next_steps import NextStep, climb, next_steps
from orchestrator.api.planned_question import BEST, PlannedQuestion, export_folder, plan_question, rates_of, say_plan
from orchestrator.api.training import train
from orchestrator.config.notebook import CONSOLE, ShownInCell, notebook_output
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.session.launch_loop import Launch
from orchestrator.session.outcome import Ended, Outcome, trials_of
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.errors import ConfigError, unknown_name
from trials.sources.places.model_draft import named_model

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast


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
        files = {"sweep": self.sweep_file, "model": self.model}
        lines = [str(self.answers), "", *outcome_lines(self.outcome)] if self.outcome is not None else []
        lines += [f"{name:<8}{path}" for name, path in files.items() if path is not None]
        if self.outcome is None and self.forecast is not None:
            lines.append(self.forecast.line)
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
    parsed_options = _options(options, others)
    launch, folder = _begin(parsed_options)
    planned = plan_question(parsed_options, folder, launch)
    launch = replace(launch, max_hours=planned.options.max_hours)
    say_plan(planned, launch)
    if parsed_options.dry_run:
        return Choice(Answers(), planned.path, plan=planned.plan, forecast=planned.forecast)
    planned, choice, was_stopped = _searched_once_learned(planned, launch, Lookup(offline=parsed_options.offline))
    return _with_model(choice, planned, launch) if planned.options.export is not None and not was_stopped else choice


def _begin(options: ChooseOptions) -> tuple[Launch, Path]:
    """Where and until when it runs, and the folder of its sweep files; options are checked before data are read."""
    where = find_cluster(options.cluster, cpus=options.cpus, gpus=options.gpus)
    launch = Launch.begin(where, options.store, CONSOLE, max_hours=options.max_hours)
    folder = _folder(options, launch.results)
    options.check()
    if options.rates is not None:
        rates_of(options.rates, 1.0)
    named_model(options.model)
    return launch, folder


def _with_model(choice: Choice, planned: PlannedQuestion, launch: Launch) -> Choice:
    """The choice with the recommended setting, trained and exported; without a decision what the curve recommends, if
    that was asked for, and else nothing.
    """
    options, freeze = planned.options, None
    assert options.export is not None
    if not any(answer.freeze is not None for answer in choice.answers):
        likely = next((answer.decided_by.best_by_estimate for answer in choice.answers), None)
        if options.export != BEST or likely is None:
            launch.say(f"model   nothing is exported, as nothing is decided{_export_hint(likely)}")
            return choice
        freeze = str(likely["freeze"])
        launch.say(f"model   {freeze}: by its mean loss, {likely['loss']:z.2f} points; it is not decided")
    folder = export_folder(options, planned.question.name)
    machine: dict[str, Any] = {"cluster": options.cluster, "cpus": options.cpus, "gpus": options.gpus}
    model = train(folder, store=options.store, sweep=planned.question.name, freeze=freeze, **machine)
    return replace(choice, model=model.folder, exit_code=choice.exit_code or model.exit_code)


def _options(options: ChooseOptions | str, others: dict[str, Any]) -> ChooseOptions:
    names = [field.name for field in fields(ChooseOptions)]
    if wrong := [name for name in others if name not in names]:
        raise ConfigError(unknown_name(wrong[0], names))
    return ChooseOptions(data=options, **others) if isinstance(options, str) else options


def _export_hint(likely: Mapping[str, Any] | None) -> str:
    """What `--export best` would export."""
    if likely is None:
        return " and no freeze loses so little by its mean"
    return f"; --export {BEST} exports what the curve recommends, {likely['freeze']}"


def _folder(options: ChooseOptions, results: ResultStore) -> Path:
    """The folder of the sweep file: the one that holds the store, if the store is a local folder."""
    if options.out is not None:
        return Path(options.out)
    address = str(results.address)
    return Path() if "://" in address else Path(address).parent


def _searched_once_learned(
    planned: PlannedQuestion, launch: Launch, lookup: Lookup
) -> tuple[PlannedQuestion, Choice, bool]:
    """As `_search`, on the first rung on which the baseline learns, and the question on that rung."""
    (choice, was_stopped), climbed = _search(planned, launch), None
    while not was_stopped:
        unlearned = next((answer for answer in choice.answers if answer.outcome == "not learned"), None)
        climbed = None if unlearned is None else climb(planned, unlearned.decided_by.baseline, launch, lookup)
        if climbed is None or climbed.planned.question == planned.question:
            break
        planned = climbed.planned
        choice, was_stopped = _search(planned, launch)
    # A search that nothing stopped wants no more trials of its plan; those that failed it tries again.
    is_over = choice.stopped is None and not (choice.outcome and choice.outcome.failed)
    steps = tuple(next_steps(planned, choice.answers, launch, climbed, is_over=is_over))
    return planned, replace(choice, next=steps), was_stopped


def _search(planned: PlannedQuestion, launch: Launch) -> tuple[Choice, bool]:
    """Run the search to its end or limit. Returns the result, and whether a person stopped it."""
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
    """The exit code of the launch; reaching the time limit is no failure."""
    return int(ended.outcome.failed > 0) if ended.stop.bound is not None else ended.exit_code

"""What a search of `choose` finds, on the first rung on which the baseline learns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.api.answering import Answers, answers_of
from orchestrator.api.launching import outcome_lines, resume_lines
from orchestrator.api.learning import climbed
from orchestrator.api.next_steps import NextStep, next_steps
from orchestrator.api.planned_question import PlannedQuestion
from orchestrator.config.notebook import ShownInCell
from orchestrator.session.outcome import Outcome, trials_of
from orchestrator.session.session import Ended, Launch
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup

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
        from orchestrator.forecast.forecast_text import forecast_line

        files = {"sweep": self.sweep_file, "model": self.model}
        lines = [str(self.answers), "", *outcome_lines(self.outcome)] if self.outcome is not None else []
        lines += [f"{name:<8}{path}" for name, path in files.items() if path is not None]
        if self.outcome is None and self.forecast is not None:
            lines.append(forecast_line(self.forecast))
        lines += [f"next    {step.command}  # {step.brings}" for step in self.next]
        for line in [*lines, *resume_lines(self.stopped, "choose")]:
            console.print(line, soft_wrap=True)


def searched_once_learned(
    planned: PlannedQuestion, launch: Launch, lookup: Lookup
) -> tuple[PlannedQuestion, Choice, bool]:
    """As `_searched`, on the first rung on which the baseline learns, and the question on that rung."""
    choice, was_stopped = _searched(planned, launch)
    while not was_stopped and (better := _learning_more(choice, planned, launch, lookup)) is not None:
        planned = better
        choice, was_stopped = _searched(planned, launch)
    steps = tuple(next_steps(planned, choice.answers, launch))  # now that it is known what was tried
    return planned, replace(choice, next=steps), was_stopped


def _learning_more(choice: Choice, planned: PlannedQuestion, launch: Launch, lookup: Lookup) -> PlannedQuestion | None:
    """The question on a rung on which its baseline learns, where a search has ended without; None if none was found."""
    unlearned = next((answer for answer in choice.answers if answer.outcome == "not learned"), None)
    if unlearned is None:
        return None
    better = climbed(planned, unlearned.decided_by.baseline, launch, lookup)
    return None if better.question == planned.question else better


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

"""What `choose` will run: the question agreed on, its plan and forecast, and the files that it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.api.dev_choice import agreed
from orchestrator.api.model_export import refuse_folder
from orchestrator.api.questions import as_before, question_of, sized
from orchestrator.api.rates import depths_to_rate, say_rates, with_best_rates
from orchestrator.api.train_share import fitting
from orchestrator.config.console import Say
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import SEEDS, Question
from orchestrator.own_data.sweep_file import SweepFile
from orchestrator.session.session import Launch
from orchestrator.session.tables import plan_lines
from orchestrator.sweeps.dev_resolution import dev_note
from orchestrator.sweeps.load_sweep import sweep_of_text
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast

BEST = "best"  # of `--export`: what is decided, else what the curve recommends


class PlannedQuestion(NamedTuple):
    """What will run. `asked` is what was agreed on; `is_again`: the file of the same command holds it already."""

    asked: ChooseOptions
    question: Question
    path: Path
    is_again: bool
    plan: Plan
    forecast: Forecast

    @property
    def train_size(self) -> int:
        """Train items of its trials."""
        return self.plan.trials[0].train_size


def plan_question(asked: ChooseOptions, folder: Path, launch: Launch, size: int | None = None) -> PlannedQuestion:
    """The data read, the time shared out, learning rates tried where they are asked for.

    `size`: train items; None for as many as the time allows.
    """
    with launch.lookup(offline=asked.offline) as lookup:

        def question_about(options: ChooseOptions) -> Question:
            base = question_of(as_before(options, folder, launch.say), lookup, launch.say)
            return replace(base, asked=options.question, folder=folder)

        question = question_about(asked)
        if (changed := agreed(asked, question, folder, launch.say)) != asked:
            asked, question = changed, question_about(changed)
        _refuse_files(asked, folder, question)
        path = folder / f"{question.name}.yaml"
        kept = SweepFile(path)
        is_again = kept.asks(asked.question)
        if kept.asks_alike(asked.question):
            question = _with_trials(question, lookup, kept, launch.say)
        elif size is not None:
            question = sized(question, lookup, size)
        plan, forecast, question = fitting(question, path, launch, lookup, fits=size is not None)
        n_layers = plan.trials[0].model.n_layers
        if asked.rates is not None and asked.dry_run:
            say_rates(question, asked.rates, depths_to_rate(asked.rates, n_layers), path, launch, lookup)
        elif asked.rates is not None:  # what the store has of them is not run again
            depths = depths_to_rate(asked.rates, n_layers)
            question = with_best_rates(question, asked.rates, depths, path, launch, lookup)
            plan = launch.plan(*sweep_of_text(path, question.sweep_text()), lookup)
    return PlannedQuestion(asked, question, path, is_again and kept.holds(question), plan, forecast)


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
        printed.add(f"note    {dev_note(question.corpus.task, question.corpus.spec, asked.tolerance, SEEDS)}")
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


def _with_trials(question: Question, lookup: Lookup, kept: SweepFile, say: Say) -> Question:
    """The question as its sweep file has it, in size, epochs and rate, also at another tolerance: its trials serve.

    Raises:
        RefusedError: The file is that of this question, and edited.
    """
    question = _as_tried(sized(question, lookup, kept.train_size()), kept)
    if kept.asks(question.asked):
        kept.refuse_edited(question)
    elif question.train_size is not None:
        say(f"data    the first {question.train_size:,} for training, as at the other tolerance: its trials serve")
    return question


def _as_tried(question: Question, kept: SweepFile) -> Question:
    """The question with the epochs and rates of its sweep file: what its baseline took to learn, or what was best.

    Rates that are asked for are chosen anew, from the trials that the store has.
    """
    optim = dict(question.recipe["optim"])
    if (epochs := kept.epochs()) is None:  # a person's file
        return question
    optim["epochs"] = epochs
    rates = kept.rates() if "--rates" in question.asked else {}
    if "--rates" not in question.asked:
        optim["lr"] = kept.rate() or optim["lr"]
    return replace(question, recipe={**question.recipe, "optim": optim}, rates=rates, hours=kept.hours())

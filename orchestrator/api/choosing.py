"""From somebody's data to what to freeze on it, in one call."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from orchestrator.analysis.cells import freeze_name
from orchestrator.api.answering import Answers, answers_of
from orchestrator.api.exporting import refuse_folder
from orchestrator.api.launching import Course, here, outcome_lines, resume_lines
from orchestrator.api.rates import higher_rates, rates_of, with_best_rates
from orchestrator.api.rivals import TIME, with_lora
from orchestrator.api.training import train
from orchestrator.config.console import INTERRUPTED, ShownInCell, download_progress, notebook_output, say
from orchestrator.config.quantities import counted, duration
from orchestrator.config.yaml_document import Document
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import corpus_lines, draft_of, guess_corpus
from orchestrator.own_data.sweep_file import (
    Question,
    asks,
    asks_alike,
    pins_in,
    rate_in,
    rates_in,
    recipe,
    refuse_edited,
    refuse_others,
    size_in,
    sweep_name,
    sweep_text,
    write_sweep,
)
from orchestrator.search.choose_depth import DepthGoal, spread
from orchestrator.search.depth_search import Depths
from orchestrator.session.display import plan_lines
from orchestrator.session.outcome import Bounds, Outcome, early_end, trials_of
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.plan import Plan, brought_up_to_date, dev_note, plan_notes, resolved
from orchestrator.sweeps.sweep import declared_sweep, expand
from trials.draft import Lookup
from trials.errors import ConfigError, RefusedError, unknown
from trials.sources.corpus_draft import DataDraft
from trials.sources.local_models import ModelDraft, named_model
from trials.spec import TrialSpec
from trials.tasks.reading import read_corpus

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer
    from orchestrator.forecast.values import Forecast

HOUR = 3_600.0
SPARE = 0.9  # of the time, so that a forecast that is a little off still ends in it
NEEDED = 0.4  # of all trials: a search usually needs a third, and forecasts are off where a machine has other work
PILOTS = 3  # shapes that are timed; the cost model has the depths between, as the time is for the curve
HOLD_OUT = 0.3  # of train, where dev is too small for the tolerance
FEWEST = 100  # train items; fewer say little about a freeze
_FITS = 3  # how often a plan is forecast: whole, with a part of train, and where that takes more epochs


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
        exit_code: As of `permafrost launch`.
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
        from orchestrator.forecast.values import forecast_line

        files = {"sweep": self.sweep_file, "model": self.model}
        lines = [str(self.answers), "", *outcome_lines(self.outcome)] if self.outcome is not None else []
        lines += [f"{name:<8}{path}" for name, path in files.items() if path is not None]
        if self.outcome is None and self.forecast is not None:
            lines.append(forecast_line(self.forecast))
        lines += [f"next    {each.command}  # {each.brings}" for each in self.next]
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
    began, asked = time.monotonic(), _options(options, others)
    course, folder = _course(asked, began)
    if asked.models:
        return _over_models(asked, folder, course)
    planned = _planned(asked, folder, course)
    _say_plan(planned, course)
    if asked.dry_run:
        return Choice(Answers(), planned.path, plan=planned.plan, forecast=planned.forecast)
    with_rival = asked.against is not None
    choice, was_stopped = _searched(planned, course.of_time(1 - TIME) if with_rival else course)
    if with_rival and not was_stopped:
        lookup = Lookup(offline=asked.offline)
        found, code = with_lora(choice.answers, planned.question, planned.plan, planned.path, course, lookup)
        choice, was_stopped = replace(choice, answers=found, exit_code=max(choice.exit_code, code)), code == INTERRUPTED
    can_train = planned.asked.export is not None and any(each.freeze is not None for each in choice.answers)
    return _with_model(choice, planned) if can_train and not was_stopped else choice


def _over_models(asked: ChooseOptions, folder: Path, course: Course) -> Choice:
    """Each encoder in an equal share of the time, at one train size; then all depths against the best baseline."""
    plans: list[_Planned] = []
    for model in asked.models:
        asked = replace(plans[-1].asked if plans else asked, model=model)
        plans.append(_planned(asked, folder, course.of_time(1 / len(asked.models))))
    fewest = min(each.train_size for each in plans)
    plans = [each if each.train_size == fewest else _planned(each.asked, folder, course, size=fewest) for each in plans]
    for each in plans:
        _say_plan(each, course)
    if asked.dry_run:
        return Choice(Answers(), plans[0].path, plan=plans[0].plan, forecast=plans[0].forecast)
    choices: list[Choice] = []
    for n, each in enumerate(plans, 1):
        choice, was_stopped = _searched(each, course.of_time(n / len(plans)))
        choices.append(choice)
        if was_stopped:
            break
    return _best_of(choices, plans, course)


def _best_of(choices: Sequence[Choice], plans: Sequence[_Planned], course: Course) -> Choice:
    """The choices of several encoders as one: first the answer over all, then that of each."""
    from orchestrator.analysis.answer import across_models  # loads pandas
    from orchestrator.store.evidence import evidence

    trials = evidence(course.results, [spec for each in plans for spec in each.plan.trials])
    try:
        over_all = across_models(trials.frame, trials.specs, plans[0].plan.sweep.decision_plan)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error
    found = () if over_all is None else (over_all,)
    return replace(
        choices[-1],
        answers=Answers((*found, *(each for choice in choices for each in choice.answers))),
        sweep_file=plans[0].path,
        next=tuple(_steps_over_models(over_all, trials.specs, plans, course)),
        exit_code=max(choice.exit_code for choice in choices),
    )


def _steps_over_models(
    over_all: Answer | None, specs: Mapping[str, TrialSpec], plans: Sequence[_Planned], course: Course
) -> Iterator[NextStep]:
    """Train the recommended pair, or go on."""
    chosen = None if over_all is None else over_all.decided_by.chosen
    if chosen is not None:
        spec = specs[chosen["cell"]]
        of = next(each for each in plans if each.plan.trials[0].model == spec.model)
        yield _train_step(of.asked, of.question.name, "--freeze", spec.freeze.label)
    if over_all is None or not over_all.decided or over_all.further_seeds != 0:
        yield from _going_on(plans[0].asked, [brought_up_to_date(each.plan, course.results) for each in plans], course)


class _Planned(NamedTuple):
    """What will run. `asked` is what was agreed on; `is_again`: the file is there, as the same command wrote it."""

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


def _course(asked: ChooseOptions, began: float) -> tuple[Course, Path]:
    """Where and until when it runs, and the folder of its sweep files; options are checked before data are read."""
    where, bounds = here(asked.cluster, cpus=asked.cpus, gpus=asked.gpus), Bounds(hours=asked.max_hours)
    bounds.check(where.prices)
    course = Course(open_store(asked.store, must_exist=False), where, bounds, began)
    folder = _folder(asked, course.results)
    asked.check()
    if asked.rates is not None:
        rates_of(asked.rates, 1.0)
    for model in asked.models or (asked.model,):
        named_model(model)
    return course, folder


def _planned(asked: ChooseOptions, folder: Path, course: Course, size: int | None = None) -> _Planned:
    """The data read, the time shared out, learning rates tried where they are asked for.

    `size`: train items; None for as many as the time allows.
    """
    with download_progress() as progress:
        lookup = Lookup(offline=asked.offline, progress=progress)

        def question_about(options: ChooseOptions) -> Question:
            found = question_of(_as_before(options, folder), lookup)
            return replace(found, asked=options.question, folder=folder)

        question = question_about(asked)
        if (agreed := _agreed(asked, question, folder)) != asked:
            asked, question = agreed, question_about(agreed)
        _refuse_files(asked, folder, question)
        path = folder / f"{question.name}.yaml"
        is_again, has_trials = asks(path, asked.question), asks_alike(path, asked.question)
        if has_trials:
            question = _with_trials(question, lookup, path)
        elif size is not None:
            question = _sized(question, lookup, size)
        plan, forecast, question = _fitting(question, path, course, lookup, fits=size is not None)
        if asked.rates is not None and not has_trials and not asked.dry_run:
            question = with_best_rates(question, asked.rates, plan.trials[0].model.n_layers, path, course, lookup)
            plan = course.plan(Document.of_text(path, sweep_text(question)), lookup)
    return _Planned(asked, question, path, is_again, plan, forecast)


def _say_plan(planned: _Planned, course: Course) -> None:
    """Write the sweep file, unless it is there, and say what is planned that was not said yet."""
    path, question = planned.path, planned.question
    if planned.is_again:
        say(f"sweep   as the same command wrote it: {path}")
    else:
        was = " in place of that of an earlier question; its trials are used again" if path.exists() else ""
        write_sweep(path, sweep_text(question))
        say(f"sweep   wrote {path}{was}")
    told = {f"note    {question.corpus.spec.name}: {line}" for line in question.corpus.lines}
    told.add(f"note    {dev_note(question.corpus.task, question.corpus.spec, planned.asked.tolerance)}")
    for line in plan_lines(planned.plan, course.results.address, course.where)[1:]:
        if not line.startswith("data ") and line not in told:
            say(line)


def _searched(planned: _Planned, course: Course) -> tuple[Choice, bool]:
    """The search, to its end or the limit: what came of it, and whether somebody stopped it."""
    plan, results = planned.plan, course.results
    with course.run(plan) as ended:
        found = answers_of(results, trials_of(ended.plan, results), ended.plan.sweep.decision_plan)
        left = brought_up_to_date(plan, results)
        choice = Choice(
            found,
            planned.path,
            next=tuple(_next_steps(planned.asked, planned.question, found, left, course)),
            outcome=ended.outcome,
            exit_code=ended.exit_code,
            plan=ended.plan,
            forecast=planned.forecast,
            stopped=early_end(ended.plan, ended.outcome, ended.stop),
        )
    return choice, ended.stop.asked and ended.stop.bound is None


def _with_model(choice: Choice, planned: _Planned) -> Choice:
    """The choice with the recommended setting, trained and exported."""
    asked = planned.asked
    assert asked.export is not None
    machine: dict[str, Any] = {"cluster": asked.cluster, "cpus": asked.cpus, "gpus": asked.gpus}
    model = train(asked.export, store=asked.store, sweep=planned.question.name, **machine)
    return replace(choice, model=model.folder, exit_code=choice.exit_code or model.exit_code)


def _options(options: ChooseOptions | str, others: dict[str, Any]) -> ChooseOptions:
    known = [field.name for field in fields(ChooseOptions)]
    if wrong := [name for name in others if name not in known]:
        raise ConfigError(unknown(wrong[0], known))
    return ChooseOptions(data=options, **others) if isinstance(options, str) else options


def _next_steps(
    asked: ChooseOptions, question: Question, found: Answers, left: Plan, course: Course
) -> Iterator[NextStep]:
    """What somebody may do now: train what is recommended, go on, or ask something that can be decided."""
    if any(each.freeze is not None for each in found) and asked.export is None:
        yield _train_step(asked, question.name)
    if any(each.outcome == "not learned" for each in found):
        brings = f"tries {'other' if asked.rates is None else 'higher'} learning rates first, as the baseline has not "
        rates = higher_rates(asked.rates, float(question.recipe["optim"]["lr"]))
        yield NextStep(asked.command(rates=rates), f"{brings}learned the task")
    open_ones = any(not each.decided or each.further_seeds != 0 for each in found)
    coarse = resolved(question.corpus.task, question.corpus.spec) > asked.tolerance
    share = _worth_holding_out(question) if open_ones and coarse and asked.held_out is None else None
    brings = "" if share is None else f"asks again with {share:.0%} of train as dev, which tells smaller losses"
    larger = [] if share is None else [NextStep(asked.command(held_out=share), brings)]
    seeds_tell = all(each.decided_by.alike is None for each in found)
    yield from [] if seeds_tell else larger
    if open_ones or not found:
        yield from _going_on(asked, [left], course)
    for each in found:
        yield from _other_tolerance(asked, each)
    yield from larger if seeds_tell else []


def _train_step(asked: ChooseOptions, sweep: str, *words: str) -> NextStep:
    folder = f"{sweep.removeprefix('choose-')}-model"
    command = ("permafrost", "train", "--store", asked.store, "--sweep", sweep, *words, "-o", folder, *asked.machine)
    return NextStep(shlex.join(command), "trains the recommended setting on all of train and exports the model")


def _going_on(asked: ChooseOptions, left: Sequence[Plan], course: Course) -> Iterator[NextStep]:
    """The same command, with as much time as what is left may take; nothing where nothing is."""
    from orchestrator.forecast.forecast import forecast_of

    if not (n := sum(len(plan.ahead) for plan in left)):
        return
    walls = [forecast_of(plan, course.results, course.where).wall_s for plan in left if plan.ahead]
    known = [wall for wall in walls if wall is not None]
    hours, took = 2 * asked.max_hours, ""
    if len(known) == len(walls):
        hours = max(math.ceil(100 * sum(wall.high for wall in known) / HOUR) / 100, 0.01)
        took = f", {duration(sum(wall.median for wall in known))}"
    yield NextStep(asked.command(max_hours=hours), f"goes on where it stopped: at most {counted(n, 'trial')}{took}")


def _other_tolerance(asked: ChooseOptions, each: Answer) -> Iterator[NextStep]:
    """The tolerance that is met now, where the one that was asked for is not."""
    met = next((row for row in each.trade_offs if row["tolerance"] > asked.tolerance), None)
    if each.freeze is None and met is not None and (limit := math.ceil(10 * met["tolerance"]) / 10) < 100:
        saves = f"{freeze_name(met['freeze'])}, saves {100 * met['saved']:.0f} %"
        yield NextStep(asked.command(tolerance=limit), f"is decided with the trials at hand: {saves}")


def _worth_holding_out(question: Question) -> float | None:
    """The share of train that would serve better as dev; None where it is no larger, or dev is a fixed split."""
    data = question.corpus.spec
    assert data.sizes is not None
    n_train, n_dev, _ = data.sizes
    is_fixed = data.held_out is None and (data.source is not None or "bundled" in question.corpus.data)
    return HOLD_OUT if not is_fixed and HOLD_OUT * (n_train + n_dev) > 1.5 * n_dev else None


def write_question(options: ChooseOptions) -> Path:
    """Write the sweep file that `choose` would launch on all of train, to be edited; returns its path.

    Raises:
        RefusedError: The file exists.
        ConfigError, DataError, ModelError, MissingError: As `choose`.
    """
    options.check()
    folder = Path(options.out or "")
    with download_progress() as progress:
        lookup = Lookup(offline=options.offline, progress=progress)
        made_by = options.question.replace(" choose", " init", 1)
        question = replace(question_of(options, lookup), asked=made_by, folder=folder)
        path = folder / f"{question.name}.yaml"
        if path.exists():
            raise RefusedError(f"{path}: already exists. Give --out another folder, or delete the file.")
        document = Document.of_text(path, sweep_text(question))
        write_sweep(path, sweep_text(question))
        sweep = declared_sweep(document)
        trials = expand(sweep, document, lookup)
    told = {f"{question.corpus.spec.name}: {line}" for line in question.corpus.lines}
    for note in plan_notes(sweep, trials, trials, lookup):
        if note not in told:
            say(f"note    {note}")
    return path


def _refuse_files(asked: ChooseOptions, folder: Path, question: Question) -> None:
    """Raise RefusedError, before anything runs, for a folder or file that would be overwritten."""
    if asked.export is not None:
        refuse_folder(Path(asked.export))
    refuse_others(folder, question.name, asked.question)


def _as_before(asked: ChooseOptions, folder: Path) -> ChooseOptions:
    """The options with the versions that the sweep file of the same question pins, if it is there."""
    data, model = draft_of(asked), named_model(asked.model)
    path = folder / f"{sweep_name(data.model_dump(), asked.suffix)}.yaml"
    pins = pins_in(path, asked.question)
    if "data" in pins and not data.is_pinned:
        say(f"pinned  data {pins['data']}, as in {path}")
        asked = replace(asked, data=pins["data"])
    if "model" in pins and not model.is_pinned:
        say(f"pinned  model {pins['model']}, as in {path}")
        asked = replace(asked, model=pins["model"])
    return asked


def question_of(asked: ChooseOptions, lookup: Lookup) -> Question:
    """The question about all of train, with the corpus, model and recipe looked up, both at an exact version.

    Raises as `choose`.
    """
    corpus = guess_corpus(asked, lookup)
    data, model = DataDraft.model_validate(corpus.data), named_model(asked.model)
    data = data.pinned(corpus.spec.source)
    model = model.pinned(lookup.model(model).source)
    for line in lookup.resolved.values():
        say(f"pinned  {line}")
    lookup.resolved.clear()  # what follows has exact versions
    for line in (*corpus.lines, *corpus_lines(corpus.task, corpus.spec)):
        say(f"data    {line}")
    corpus = replace(corpus, data=data.model_dump(mode="json", exclude_defaults=True))
    key = model.folder or model.model_dump(mode="json", exclude_defaults=True)
    question = Question(corpus, key, {}, asked.tolerance, asked=asked.question, suffix=asked.suffix)
    return _sized(question, lookup, None)


def _sized(question: Question, lookup: Lookup, size: int | None) -> Question:
    """The question about so much of train, with the recipe for that."""
    key, corpus = question.model, question.corpus
    spec = lookup.model(ModelDraft(folder=key) if isinstance(key, str) else ModelDraft(**key))
    read = read_corpus(corpus.task, lookup.data(DataDraft.model_validate(corpus.data), corpus.task))
    return replace(question, train_size=size, recipe=recipe(spec, read, size))


def _with_trials(question: Question, lookup: Lookup, path: Path) -> Question:
    """The question with the train size and rates that its sweep file has, also at another tolerance: its trials serve.

    Raises:
        RefusedError: The file is that of this question, and edited.
    """
    question = _as_rated(_sized(question, lookup, size_in(path)), path)
    if asks(path, question.asked):
        refuse_edited(path, question)
    elif question.train_size is not None:
        say(f"data    the first {question.train_size:,} for training, as at the other tolerance: its trials serve")
    return question


def _as_rated(question: Question, path: Path) -> Question:
    """The question with the learning rates that its sweep file has, where rates were tried before."""
    if "--rates" not in question.asked:
        return question
    optim = {**question.recipe["optim"], "lr": rate_in(path) or question.recipe["optim"]["lr"]}
    return replace(question, recipe={**question.recipe, "optim": optim}, rates=rates_in(path))


def _folder(asked: ChooseOptions, results: ResultStore) -> Path:
    """Where the sweep's file goes: beside a store in a folder."""
    if asked.out is not None:
        return Path(asked.out)
    address = str(results.address)
    return Path() if "://" in address else Path(address).parent


def _fitting(
    question: Question,
    path: Path,
    course: Course,
    lookup: Lookup,
    *,
    fits: bool,
) -> tuple[Plan, Forecast, Question]:
    """The plan and its forecast, with as much of train as `NEEDED` trials can use in the time; or that of its file.

    Without past trials on this device pilots of a few dozen steps are timed, each once.
    """
    from orchestrator.forecast.forecast import forecast_of
    from orchestrator.forecast.pilot import Pilots
    from orchestrator.forecast.values import forecast_line

    is_again = asks(path, question.asked)
    document = Document.read(path) if is_again else Document.of_text(path, sweep_text(question))
    n_train, pilots = 0, Pilots(say, PILOTS)  # the time of a step does not depend on the train size
    for left in reversed(range(_FITS)):
        plan = course.plan(document, lookup)
        forecast = forecast_of(plan, course.results, course.where, pilots=pilots)
        n_train = max((spec.train_size for spec in plan.trials), default=0)
        took = NEEDED * forecast.wall_s.median if forecast.wall_s is not None else 0.0
        time_left = max(course.time_left, 1.0)
        if fits or asks_alike(path, question.asked) or took <= time_left or n_train <= FEWEST or not left:
            break
        size = max(FEWEST, _rounded(n_train * SPARE * time_left / took))
        say(
            f"data    {NEEDED:.0%} of the trials on {n_train:,} would take {duration(took)}, more than is left of "
            f"--max-hours {course.bounds.hours:g}: trying {size:,}"
        )
        question = _sized(question, lookup, size)
        document = Document.of_text(path, sweep_text(question))
    if plan.ahead:
        say(f"{forecast_line(forecast)}, if every trial were needed{_curve_words(plan, forecast)}")
    return plan, forecast, question


def _curve_words(plan: Plan, forecast: Forecast) -> str:
    """When the curve of depths is there, if nothing has run yet; empty otherwise."""
    if forecast.wall_s is None or plan.n_skipped:
        return ""
    depths = Depths.of(plan.trials)
    cells = [depths.baseline, *(depths.freezes[i] for i in spread(len(depths.freezes)))]
    first = {spec.trial_id for seeds in cells for spec in list(seeds.values())[: DepthGoal.min_seeds]}
    seconds = {i: each.seconds.median for each in forecast.cells if each.seconds for i in each.trials}
    share = sum(seconds.get(i, 0.0) for i in first) / max(sum(seconds.values()), 1e-9)
    return f"; a curve of {len(cells) - 1} depths after about {duration(share * forecast.wall_s.median)}"


def _agreed(asked: ChooseOptions, question: Question, folder: Path) -> ChooseOptions:
    """The options, changed by a person who is told that dev cannot decide the tolerance; where nobody can be
    asked, what was given stands, and is said.
    """
    task, data = question.corpus.task, question.corpus.spec
    note = dev_note(task, data, asked.tolerance)
    if note is None or asks(folder / f"{question.name}.yaml", asked.question):
        return asked
    say(f"note    {note}")
    tolerance = math.ceil(2 * resolved(task, data)) / 2
    share = _worth_holding_out(question)
    ways = {f"--tolerance {tolerance:g}": replace(asked, tolerance=tolerance)} if tolerance < 100 else {}
    ways |= {f"--held-out {share:g}": replace(asked, held_out=share)} if share and asked.held_out is None else {}
    if asked.ask is None:
        say(f"note    continuing with what was given{'; other ways: ' + ', '.join(ways) if ways else ''}.")
        return asked
    picked = asked.ask("Go on with that, or with another tolerance or dev split?", ["go on", *ways])
    return ways.get(picked, asked)


def _rounded(n: float) -> int:
    """Two digits, rounded down."""
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(n // step * step)

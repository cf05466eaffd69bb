"""The question that `choose` asks: somebody's data read, a recipe, and as much of train as the time allows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.api.model_export import refuse_folder
from orchestrator.api.rates import depths_to_rate, say_rates, with_best_rates
from orchestrator.config.console import Say
from orchestrator.config.quantities import HOUR, duration
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.corpus_guess import draft_of, guess_corpus
from orchestrator.own_data.recipe import recipe
from orchestrator.own_data.sweep_file import (
    SEEDS,
    Question,
    asks,
    asks_alike,
    epochs_in,
    holds,
    hours_in,
    pins_in,
    rate_in,
    rates_in,
    refuse_edited,
    refuse_others,
    size_in,
    sweep_name,
    sweep_text,
    write_sweep,
)
from orchestrator.search.choose_depth import spread
from orchestrator.search.depth_search import Depths
from orchestrator.session.session import Launch
from orchestrator.session.tables import plan_lines
from orchestrator.sweeps.corpus_words import corpus_lines
from orchestrator.sweeps.dev_resolution import dev_note, folds_note, resolved
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep, sweep_of_text
from orchestrator.sweeps.notes import Noted
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.errors import RefusedError
from trials.sources.places.corpus_draft import DataDraft
from trials.sources.places.model_draft import ModelDraft, named_model
from trials.tasks.task import read_corpus

if TYPE_CHECKING:
    from orchestrator.forecast.forecast import Forecast


SPARE = 0.9  # of the time, so that a forecast that is a little off still ends in it
PILOTS = 3  # shapes that are timed; the cost model has the depths between, as the time is for the curve
BEST = "best"  # of `--export`: what is decided, else what the curve recommends
HOLD_OUT, FOLDS = 0.3, 5  # of train, where dev is too small for the tolerance
FEWEST = 100  # train items; fewer say little about a freeze
_FITS = 2  # how often a part of train is tried: fewer items may take more epochs


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
        if (agreed := _agreed(asked, question, folder, launch.say)) != asked:
            asked, question = agreed, question_about(agreed)
        _refuse_files(asked, folder, question)
        path = folder / f"{question.name}.yaml"
        is_again, has_trials = asks(path, asked.question), asks_alike(path, asked.question)
        if has_trials:
            question = _with_trials(question, lookup, path, launch.say)
        elif size is not None:
            question = sized(question, lookup, size)
        plan, forecast, question = _fitting(question, path, launch, lookup, fits=size is not None)
        n_layers = plan.trials[0].model.n_layers
        if asked.rates is not None and asked.dry_run:
            say_rates(question, asked.rates, depths_to_rate(asked.rates, n_layers), path, launch, lookup)
        elif asked.rates is not None:  # what the store has of them is not run again
            depths = depths_to_rate(asked.rates, n_layers)
            question = with_best_rates(question, asked.rates, depths, path, launch, lookup)
            plan = launch.plan(*sweep_of_text(path, sweep_text(question)), lookup)
    return PlannedQuestion(asked, question, path, is_again and holds(path, question), plan, forecast)


def say_plan(planned: PlannedQuestion, launch: Launch) -> None:
    """Write the sweep file, unless it is there, and say what is planned that was not said yet."""
    path, question = planned.path, planned.question
    if planned.is_again:
        launch.say(f"sweep   as the same command wrote it: {path}")
    else:
        was = " in place of an earlier one; trials that serve both are used again" if path.exists() else ""
        write_sweep(path, sweep_text(question))
        launch.say(f"sweep   wrote {path}{was}")
    printed = {f"note    {question.corpus.spec.name}: {line}" for line in question.corpus.lines}
    if not planned.is_again:  # `_agreed` has said what dev cannot decide, and what would
        asked = planned.asked
        printed.add(f"note    {dev_note(question.corpus.task, question.corpus.spec, asked.tolerance, SEEDS)}")
    for line in plan_lines(planned.plan, launch.results.address, launch.where)[1:]:
        if not line.startswith("data ") and line not in printed:
            launch.say(line)


def question_of(asked: ChooseOptions, lookup: Lookup, say: Say) -> Question:
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
    if corpus.spec.folds is not None:
        say(f"data    {folds_note(corpus.task, corpus.spec)}")
    corpus = replace(corpus, data=data.model_dump(mode="json", exclude_defaults=True))
    key = model.folder or model.model_dump(mode="json", exclude_defaults=True)
    question = Question(corpus, key, {}, asked.tolerance, asked=asked.question, suffix=asked.suffix)
    return sized(question, lookup, None)


def write_question(options: ChooseOptions, lookup: Lookup, say: Say) -> Path:
    """Write the sweep file that `choose` would launch on all of train, to be edited; returns its path.

    Raises:
        RefusedError: The file exists.
        ConfigError, DataError, ModelError, MissingError: As `choose`.
    """
    options.check()
    folder = Path(options.out or "")
    made_by = options.question.replace(" choose", " init", 1)
    question = replace(question_of(options, lookup, say), asked=made_by, folder=folder)
    path = folder / f"{question.name}.yaml"
    if path.exists():
        raise RefusedError(f"{path}: already exists. Give --out another folder, or delete the file.")
    sweep, document = sweep_of_text(path, sweep_text(question))
    write_sweep(path, sweep_text(question))
    trials = expand(sweep, document, lookup)
    printed = {f"{question.corpus.spec.name}: {line}" for line in question.corpus.lines}
    for note in Noted(sweep, trials, trials, lookup).sentences():
        if note not in printed:
            say(f"note    {note}")
    return path


def _refuse_files(asked: ChooseOptions, folder: Path, question: Question) -> None:
    """Raise RefusedError, before anything runs, for a folder or file that would be overwritten."""
    if asked.export is not None:
        refuse_folder(export_folder(asked, question.name))
    refuse_others(folder, question.name, asked.question)


def export_folder(asked: ChooseOptions, sweep: str) -> Path:
    """Where the model goes."""
    return Path(asked.export if asked.export not in (None, BEST) else model_folder(sweep))


def model_folder(sweep: str) -> str:
    """Where the model of a question goes if nobody says."""
    return f"{sweep.removeprefix('choose-')}-model"


def as_before(asked: ChooseOptions, folder: Path, say: Say) -> ChooseOptions:
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


def sized(question: Question, lookup: Lookup, size: int | None) -> Question:
    """The question about so much of train, with the recipe for that."""
    key, corpus = question.model, question.corpus
    spec = lookup.model(ModelDraft(folder=key) if isinstance(key, str) else ModelDraft(**key))
    read = read_corpus(corpus.task, lookup.data(DataDraft.model_validate(corpus.data), corpus.task))
    return replace(question, train_size=size, recipe=recipe(spec, read, size))


def _with_trials(question: Question, lookup: Lookup, path: Path, say: Say) -> Question:
    """The question as its sweep file has it, in size, epochs and rate, also at another tolerance: its trials serve.

    Raises:
        RefusedError: The file is that of this question, and edited.
    """
    question = _as_tried(sized(question, lookup, size_in(path)), path)
    if asks(path, question.asked):
        refuse_edited(path, question)
    elif question.train_size is not None:
        say(f"data    the first {question.train_size:,} for training, as at the other tolerance: its trials serve")
    return question


def _as_tried(question: Question, path: Path) -> Question:
    """The question with the epochs and rates of its sweep file: what its baseline took to learn, or what was best.

    Rates that are asked for are chosen anew, from the trials that the store has.
    """
    optim = dict(question.recipe["optim"])
    if (epochs := epochs_in(path)) is None:  # a person's file
        return question
    optim["epochs"] = epochs
    rates = rates_in(path) if "--rates" in question.asked else {}
    if "--rates" not in question.asked:
        optim["lr"] = rate_in(path) or optim["lr"]
    return replace(question, recipe={**question.recipe, "optim": optim}, rates=rates, hours=hours_in(path))


def _fitting(
    question: Question, path: Path, launch: Launch, lookup: Lookup, *, fits: bool
) -> tuple[Plan, Forecast, Question]:
    """The plan and its forecast, on all of train unless not even a curve would end in the time; `fits`: as it is.

    A part that was taken for less time is given up where a curve on all of train fits now. Without past trials on this
    device pilots of a few dozen steps are timed, each once.
    """
    from orchestrator.forecast.forecast import forecast_of
    from orchestrator.forecast.forecast_text import forecast_line
    from orchestrator.forecast.pilot import Pilots

    pilots = Pilots(launch.say, PILOTS)  # the time of a step does not depend on the train size

    def planned(question: Question) -> tuple[Plan, Forecast, float]:
        again = asks(path, question.asked) and holds(path, question)  # with what a person added to it
        declared = load_sweep(path, []) if again else sweep_of_text(path, sweep_text(question))
        plan = launch.plan(*declared, lookup)
        forecast = forecast_of(plan, launch.results, launch.where, pilots=pilots)
        return plan, forecast, _curve_s(plan, forecast)

    plan, forecast, curve_s = planned(question)
    hours = launch.bounds.hours or math.inf
    if question.hours is not None and hours > question.hours and not fits:
        whole = replace(sized(question, lookup, None), hours=None)
        all_of_it = planned(whole)
        if all_of_it[-1] <= SPARE * launch.time_left:
            question, (plan, forecast, curve_s) = whole, all_of_it
            launch.say(
                f"data    all {plan.trials[0].train_size:,} for training, as --max-hours {hours:g} has time for them"
            )
    has_file = asks_alike(path, question.asked)
    n_train = max((spec.train_size for spec in plan.trials), default=0)
    for _ in range(0 if fits or has_file else _FITS):
        left, n = SPARE * max(launch.time_left, 1.0), max((spec.train_size for spec in plan.trials), default=0)
        if curve_s <= left or n <= FEWEST:
            break
        size = max(FEWEST, _rounded(n * left / curve_s))
        price = "" if n < n_train else f"; all of them take --max-hours {hours_of_all(curve_s, hours):g}"
        launch.say(
            f"data    a curve of depths on {n:,} takes {duration(curve_s)}, more than is left of --max-hours "
            f"{hours:g}: trying {size:,}{price}"
        )
        question = replace(sized(question, lookup, size), hours=hours)
        plan, forecast, curve_s = planned(question)
    if plan.ahead:
        curve = "" if not curve_s or plan.n_skipped else f"; a curve of depths after about {duration(curve_s)}"
        launch.say(f"{forecast_line(forecast)}, if every trial were needed{curve}")
    return plan, forecast, question


def _hours(seconds: float) -> float:
    """Hours, rounded up to two digits."""
    return max(math.ceil(100 * seconds / HOUR) / 100, 0.01)


def _curve_s(plan: Plan, forecast: Forecast) -> float:
    """Seconds until the first look at depths that span the encoder; 0 where nobody knows."""
    if forecast.wall_s is None:
        return 0.0
    depths = Depths.of(plan.trials)
    cells = [depths.baseline, *(depths.freezes[i] for i in spread(len(depths.freezes)))]
    first = {spec.trial_id for seeds in cells for spec in list(seeds.values())[: plan.sweep.decision_plan.min_seeds]}
    seconds = {i: cell.seconds.median for cell in forecast.cells if cell.seconds for i in cell.trials}
    share = sum(seconds.get(i, 0.0) for i in first) / max(sum(seconds.values()), 1e-9)
    return share * forecast.wall_s.median


def all_of_train_hours(planned: PlannedQuestion, launch: Launch, lookup: Lookup) -> float | None:
    """The `--max-hours` that a curve on all of train takes, where a part was used; None where not, or unknown."""
    from orchestrator.forecast.forecast import forecast_of

    if planned.question.hours is None:
        return None
    whole = replace(sized(planned.question, lookup, None), hours=None)
    plan = launch.plan(*sweep_of_text(planned.path, sweep_text(whole)), lookup)
    curve_s = _curve_s(plan, forecast_of(plan, launch.results, launch.where))
    return hours_of_all(curve_s, planned.question.hours) if curve_s else None


def hours_of_all(curve_s: float, too_few: float) -> float:
    """The `--max-hours` for a curve on all of train, where so many were too few: pilots took some of them."""
    return max(_hours(curve_s / SPARE), round(_hours(too_few * HOUR) + 0.01, 2))


def _agreed(asked: ChooseOptions, question: Question, folder: Path, say: Say) -> ChooseOptions:
    """The options as a person changes them who is told that dev cannot decide the tolerance.

    Without a person to ask they stay as they are, which a note says.
    """
    task, data = question.corpus.task, question.corpus.spec
    note = _dev_note(question, asked.tolerance)
    if note is None or asks(folder / f"{question.name}.yaml", asked.question):
        return asked
    say(f"note    {note}")
    tolerance = math.ceil(2 * min(resolved(task, data, SEEDS), 100)) / 2
    share = worth_holding_out(question)
    ways = {f"--tolerance {tolerance:g}": replace(asked, tolerance=tolerance)} if tolerance < 100 else {}
    if share is not None:
        ways |= {f"--held-out {share:g}": replace(asked, held_out=share)} if asked.held_out is None else {}
        ways |= {f"--folds {FOLDS}": replace(asked, held_out=None, folds=FOLDS)}
    if asked.ask is None:
        say(f"note    continuing with what was given{'; other ways: ' + ', '.join(ways) if ways else ''}.")
        return asked
    picked = asked.ask("Go on with that, or with another tolerance or dev split?", ["go on", *ways])
    return ways.get(picked, asked)


def _dev_note(question: Question, tolerance: float) -> str | None:
    """What the dev split and the planned seeds cannot decide, with what a part of train would change."""
    corpus = question.corpus
    return dev_note(corpus.task, corpus.spec, tolerance, SEEDS, worth_holding_out(question))


def _rounded(n: float) -> int:
    """Two digits, rounded down."""
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(n // step * step)


def worth_holding_out(question: Question) -> float | None:
    """The share of train that would serve better as dev; None where it is no larger, or dev is fixed, or folds."""
    data = question.corpus.spec
    assert data.sizes is not None
    n_train, n_dev, _ = data.sizes
    is_fixed = data.folds is not None or (
        data.held_out is None and (data.source is not None or "bundled" in question.corpus.data)
    )
    return HOLD_OUT if not is_fixed and HOLD_OUT * (n_train + n_dev) > 1.5 * n_dev else None

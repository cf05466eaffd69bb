"""From somebody's data to what to freeze on it, in one call."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.api.answering import Answers, answers_of
from orchestrator.api.exporting import export_model, refuse_folder
from orchestrator.api.launching import here
from orchestrator.config.console import DEFAULT_STORE, download_progress, say
from orchestrator.config.quantities import duration
from orchestrator.config.yaml_document import Document
from orchestrator.own_data.corpus_guess import Ask, guess_corpus
from orchestrator.own_data.recipe import recipe
from orchestrator.own_data.sweep_file import Question, sweep_text, training_text, write_sweep
from orchestrator.session.budget import Bounds
from orchestrator.session.outcome import Outcome, trials_of
from orchestrator.session.run_plan import run_plan
from orchestrator.session.tables import plan_lines
from orchestrator.store import ResultStore, open_store
from orchestrator.store.schema import State
from orchestrator.sweeps.plan import Plan, make_plan
from orchestrator.sweeps.sweep import declared_sweep
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.settings import FreezeSpec
from trials.sources.corpus_draft import DataDraft
from trials.sources.local_models import STARTER, ModelDraft
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.reading import read_corpus

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer
    from orchestrator.forecast.values import Forecast
    from orchestrator.sweeps.cluster_spec import ClusterSpec

HOUR = 3_600.0
SPARE = 0.9  # of the time, so that a forecast that is a little off still ends in it
FEWEST = 100  # train items; fewer say little about a freeze
_FITS = 2  # how often a plan is forecast: whole, and with a part of train


@dataclass(frozen=True)
class Choice:
    """What was found out.

    Attributes:
        answers: The answer, alone; empty after a dry run, or where nothing was completed.
        sweep_file: The sweep that asked.
        training_file: The sweep that trains with the chosen freeze on all of train; None if nothing is decided.
        model: The folder of the exported model; None if none was asked for.
        outcome: The trials of the launch, counted; None after a dry run.
        exit_code: As of `permafrost launch`.
        plan: What was to be done.
        forecast: How long all of it takes, from past trials or a pilot.
    """

    answers: Answers
    sweep_file: Path
    training_file: Path | None = None
    model: Path | None = None
    outcome: Outcome | None = None
    exit_code: int = 0
    plan: Plan | None = None
    forecast: Forecast | None = None


def choose(
    data: str,
    *,
    task: str | None = None,
    model: str = STARTER,
    tolerance: float = 1.0,
    max_hours: float = 1.0,
    store: str = DEFAULT_STORE,
    out: str | Path | None = None,
    text: str | None = None,
    label: str | None = None,
    cluster: str = "local",
    export: str | Path | None = None,
    dry_run: bool = False,
    offline: bool = False,
    ask: Ask | None = None,
) -> Choice:
    """Find the deepest freeze that loses at most `tolerance` points on somebody's data.

    Args:
        data: A folder, a file, a bundled sample, `ud:NAME@RELEASE` or `hub:OWNER/NAME[/CONFIG]@REVISION`.
        task: A registered task; None for what the files hold.
        model: `starter`, a folder, or `hub:OWNER/NAME@REVISION`.
        tolerance: Acceptable loss in points, above 0.
        max_hours: Limit of this launch. If all trials would take longer, a part of train is used.
        store: The results store.
        out: Folder of the sweep files; None for the one that holds the store, or the current one.
        text: Column of a table with the texts, by name or position; None for what they hold.
        label: Column with their labels.
        cluster: As of `launch`.
        export: A new folder for the model; None for none.
        dry_run: Write and forecast the sweep only.
        offline: Refuse to download.
        ask: Asks a person for columns; None for nobody there.

    Raises:
        ConfigError, DataError, ModelError, MissingError, StoreError: Says what is wrong and what to do.
    """
    began, where, bounds = time.monotonic(), here(cluster), Bounds(hours=max_hours)
    bounds.check(where.prices)
    if export is not None:
        refuse_folder(Path(export))
    results = open_store(store, must_exist=False)
    with download_progress() as progress:
        lookup = Lookup(offline=offline, progress=progress)
        question = _question(data, lookup, task, model, tolerance, text, label, ask, keep=export is not None)
        path = _folder(out, results) / f"{question.name}.yaml"
        plan, forecast, question = _fitting(question, path, results, where, max_hours, lookup)
    written = write_sweep(path, sweep_text(question))
    say(f"sweep   {'wrote' if written else 'as the same command wrote it:'} {path}")
    for line in plan_lines(plan, results.address)[1:]:
        say(line)
    if dry_run:
        return Choice(Answers(), path, plan=plan, forecast=forecast)
    ended = run_plan(plan, where, results, bounds, forecast=forecast if forecast.is_known else None, began=began)
    trials = trials_of(ended.plan, results)
    found = answers_of(results, trials, tolerance)
    chosen = next((each for each in found if each.decided), None)
    training = folder = None
    if chosen is not None:
        training = path.with_name(f"{question.name.replace('choose-', 'train-', 1)}.yaml")
        training.write_text(training_text(question, _freeze_of(chosen, trials)), encoding="utf-8")
        if export is not None:
            folder = export_model(_best(chosen, trials, results), export, store=store)
    return Choice(found, path, training, folder, ended.outcome, ended.exit_code, ended.plan, forecast)


def write_question(
    data: str,
    out: Path,
    *,
    task: str | None = None,
    model: str = STARTER,
    tolerance: float = 1.0,
    text: str | None = None,
    label: str | None = None,
    offline: bool = False,
    ask: Ask | None = None,
) -> Path:
    """Write the sweep file that `choose` would launch on all of train, to be edited; returns its path.

    Raises:
        ConfigError: The file exists, or as `choose`.
    """
    with download_progress() as progress:
        lookup = Lookup(offline=offline, progress=progress)
        question = _question(data, lookup, task, model, tolerance, text, label, ask, keep=False)
    path = out / f"{question.name}.yaml"
    if not write_sweep(path, sweep_text(question)):
        raise ConfigError(f"{path}: already exists. Give --out another folder, or delete it.")
    return path


def named_model(name: str) -> str | dict[str, str]:
    """The key `model` of a sweep file for a name on the command line. Raises ConfigError: it lacks its revision."""
    kind, _, rest = name.partition(":")
    if kind != "hub":
        return name
    repository, _, revision = rest.rpartition("@")
    if not repository or not revision:
        raise ConfigError(f"{name!r} lacks a revision. Write hub:OWNER/NAME@REVISION.")
    return {"hub": repository, "revision": revision}


def _question(
    data: str,
    lookup: Lookup,
    task: str | None,
    model: str,
    tolerance: float,
    text: str | None,
    label: str | None,
    ask: Ask | None,
    *,
    keep: bool,
) -> Question:
    if task is not None:
        TASKS[task]
    if not 0 < tolerance < 100:
        raise ConfigError(f"--tolerance {tolerance:g}: must be above 0 and below 100 points.")
    corpus = guess_corpus(data, lookup, task=task, text=text, label=label, ask=ask)
    for line in corpus.lines:
        say(f"data    {line}")
    key = named_model(model)
    spec = lookup.model(ModelDraft(folder=key) if isinstance(key, str) else ModelDraft(**key))
    found = lookup.data(DataDraft.model_validate(corpus.data), corpus.task)
    settings = recipe(spec, read_corpus(corpus.task, found))
    options = {"--task": task, "--model": model, "--tolerance": f"{tolerance:g}", "--text": text, "--label": label}
    words = ["permafrost", "choose", data, *(w for name, value in options.items() if value for w in (name, value))]
    return Question(corpus, key, settings, tolerance, keep_weights=keep, asked=shlex.join(words))


def _folder(out: str | Path | None, results: ResultStore) -> Path:
    """Where the sweep's file goes: beside a store in a folder."""
    if out is not None:
        return Path(out)
    address = str(results.address)
    return Path() if "://" in address else Path(address).parent


def _fitting(
    question: Question, path: Path, results: ResultStore, where: ClusterSpec, max_hours: float, lookup: Lookup
) -> tuple[Plan, Forecast, Question]:
    """The plan and its forecast, with as much of train as all trials can use in the time; a file that is there decides.

    Without past trials on this device a pilot of a few dozen steps is timed.
    """
    from orchestrator.forecast.plan_forecast import forecast_of
    from orchestrator.forecast.text import forecast_line

    if path.is_file():
        document = Document.read(path)
        known = document.content.get("trial")
        if isinstance(known, Mapping):
            question = replace(question, train_size=known.get("train_size"))
    else:
        document = Document.of_text(path, sweep_text(question))
    n_train = 0
    for left in reversed(range(_FITS)):
        plan = make_plan(where.over(declared_sweep(document)), document, results, lookup)
        forecast = forecast_of(plan, results, where, pilot=say)
        n_train = max((spec.train_size for spec in plan.trials), default=0)
        took = forecast.wall_s.median if forecast.wall_s is not None else 0.0
        if path.is_file() or took <= max_hours * HOUR or n_train <= FEWEST or not left:
            break
        size = max(FEWEST, _rounded(n_train * SPARE * max_hours * HOUR / took))
        say(
            f"data    all trials on {n_train:,} would take {duration(took)}, more than --max-hours {max_hours:g}: "
            f"trying {size:,}"
        )
        question = replace(question, train_size=size)
        document = Document.of_text(path, sweep_text(question))
    if plan.ahead:
        say(f"{forecast_line(forecast)}, if every trial were needed; a search usually needs a third")
    return plan, forecast, question


def _rounded(n: float) -> int:
    """Two digits, rounded down."""
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(n // step * step)


def _freeze_of(answer: Answer, trials: list[TrialSpec]) -> FreezeSpec:
    return next(spec.freeze for spec in trials if spec.freeze.label == answer.freeze)


def _best(answer: Answer, trials: list[TrialSpec], results: ResultStore) -> str:
    """The completed trial of the chosen freeze with the best dev score."""
    ids = {spec.trial_id for spec in trials if spec.freeze.label == answer.freeze}
    rows: list[dict[str, Any]] = results.trials(["trial_id", "state", "best_score"]).to_pylist()
    done = [row for row in rows if row["trial_id"] in ids and row["state"] == State.COMPLETED]
    return str(max(done, key=lambda row: (row["best_score"], row["trial_id"]))["trial_id"])

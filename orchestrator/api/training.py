"""The model at the end of a sweep: the recommended setting trained on all of train, and exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.console import Console

from orchestrator.analysis.freeze_names import freeze_name
from orchestrator.api.answering import answers_of, plan_with
from orchestrator.api.launching import outcome_lines, resume_lines
from orchestrator.api.model_export import export_model, refuse_folder
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.config.notebook import CONSOLE, ShownInCell, notebook_output
from orchestrator.config.quantities import points
from orchestrator.session.launch_loop import Launch
from orchestrator.session.outcome import Outcome
from orchestrator.store import open_store
from orchestrator.store.plans import SweepPlan
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from trials.corpora.corpus import fingerprint
from trials.errors import ConfigError
from trials.record import State
from trials.spec import TrialSpec
from trials.tasks.task_corpus import read_corpus

Keep = Literal["best", "all"]
SEEDS = 3  # models that are trained; dev picks the best of them
WATCHED = 0.05  # share of train and dev together that is held out to choose the epoch


@dataclass(frozen=True)
class TrainedSeed:
    """A run: its scores from 0 to 1 (no test score without a test split), and its folder if it was exported."""

    seed: int
    trial_id: str
    dev: float
    test: float | None
    folder: Path | None = None


@dataclass(frozen=True, repr=False)
class TrainedModel(ShownInCell):
    """What was trained.

    Attributes:
        freeze: The label of the setting.
        seeds: The runs in the order of their seeds; empty if the launch stopped early.
        stopped: Why it stopped early, and what is left; None if it did not.
    """

    freeze: str
    seeds: tuple[TrainedSeed, ...]
    outcome: Outcome
    exit_code: int
    stopped: str | None = None

    @property
    def folder(self) -> Path | None:
        """The exported model; of several, that of the first seed; None if none was."""
        return next((trained.folder for trained in self.seeds if trained.folder is not None), None)

    def lines(self) -> list[str]:
        """The scores of each seed and where its model is."""
        return [
            f"seed    {trained.seed}: dev {points(trained.dev)} (best epoch)"
            + (f", test {points(trained.test)}" if trained.test is not None else "")
            + (f"; {trained.folder}" if trained.folder is not None else "")
            for trained in self.seeds
        ]

    def _draw(self, console: Console) -> None:
        for line in [*outcome_lines(self.outcome), *self.lines(), *resume_lines(self.stopped, "train")]:
            console.print(line, soft_wrap=True)


@notebook_output("stopped; finished trials are in the store. Call `train` again with the same arguments to resume.")
def train(
    out: str | Path,
    *,
    store: str = DEFAULT_STORE,
    sweep: str | None = None,
    tolerance: float | None = None,
    freeze: str | None = None,
    seeds: int = SEEDS,
    keep: Keep = "best",
    with_dev: bool = False,
    cluster: str | None = None,
    cpus: int | None = None,
    gpus: int | None = None,
) -> TrainedModel:
    """Train the setting that a sweep recommends on all of train, under several seeds, and export a model.

    The folder opens in `transformers.pipeline` and has a model card. What the store has complete is not trained again;
    only where its weights were not kept, the exported trial is.

    Args:
        out: A new folder; with `keep="all"` one in it for each seed.
        store: The store with the sweep.
        sweep: The name of the sweep; None for the newest that compares settings.
        tolerance: Take what this tolerance buys, in points; None for the sweep's own.
        freeze: Take this setting instead, as tables name it: `none`, `embeddings`, `first 2`.
        seeds: How many seeds: those of the sweep first, then the smallest others.
        keep: Export the seed with the best dev score, or all.
        with_dev: Train on dev as well, but for a twentieth of both, which chooses the epoch and the seed.
        cluster, cpus, gpus: As of `launch`.

    Raises:
        ConfigError: Nothing is recommended, or no setting is called so.
        NothingMatchedError: The store has no such sweep.
        RefusedError: The folder exists.
        StoreError: The store cannot be read or written.
    """
    where, folder = find_cluster(cluster, cpus=cpus, gpus=gpus), Path(out)
    if seeds < 1:
        raise ConfigError(f"--seeds {seeds}: must be 1 or more.")
    refuse_folder(folder)
    launch = Launch(where, open_store(store), CONSOLE)
    declared = launch.results.sweep(sweep, compares=True)
    chosen = _chosen_trials(launch, declared, tolerance, freeze)
    spec = _on_all_of_train(chosen[0], with_dev=with_dev)
    held = sorted({trial.seed for trial in chosen})
    others = (seed for seed in range(len(held) + seeds) if seed not in held)
    specs = tuple(spec.with_seed(seed) for seed in [*held, *others][:seeds])
    parts = f"train and dev; {WATCHED:.0%} of both choose the epoch" if with_dev else "train, all of them"
    launch.say(f"train   {freeze_name(spec.freeze, spec.model.n_layers)} on {spec.train_size:,} items of {parts}")
    plan = _plan(declared, specs, launch)
    with launch.run(replace(plan, sweep=where.fitted_sweep(plan.sweep))) as ended:
        done = _done(launch, specs)
        if ended.stopped is None and done:
            best = max(done, key=lambda trained: (trained.dev, -trained.seed))
            done = [
                _export(trained, folder, store, keep) if keep == "all" or trained is best else trained
                for trained in done
            ]
        return TrainedModel(spec.freeze.label, tuple(done), ended.outcome, ended.exit_code, ended.stopped)


def _plan(declared: SweepPlan, specs: Sequence[TrialSpec], launch: Launch) -> Plan:
    """The runs as a sweep of their own."""
    name = f"train-{declared.name.removeprefix('choose-')}"
    first = specs[0]
    sweep = SweepSpec.model_validate(
        {
            "name": name,
            "trial": {
                "task": first.task,
                "model": {"folder": first.model.path},
                "data": {"train": [*first.data.train]},
            },
            "seeds": [spec.seed for spec in specs],
            "keep": "weights",
        }
    )
    return Plan(sweep, declared.source, tuple(specs), (), {}).without_completed(launch.results)


def _done(launch: Launch, specs: Sequence[TrialSpec]) -> list[TrainedSeed]:
    """The completed runs in the order of their seeds."""
    columns = ["trial_id", "state", "best_score", "test_score"]
    trials = launch.results.trials(columns).to_pylist()
    rows = {row["trial_id"]: row for row in trials if row["state"] == State.COMPLETED}
    completed = ((spec, rows[spec.trial_id]) for spec in specs if spec.trial_id in rows)
    return [TrainedSeed(spec.seed, spec.trial_id, row["best_score"], row["test_score"]) for spec, row in completed]


def _export(run: TrainedSeed, folder: Path, store: str, keep: Keep) -> TrainedSeed:
    where = folder / f"seed-{run.seed}" if keep == "all" else folder
    return replace(run, folder=export_model(run.trial_id, where, store=store))


def _chosen_trials(launch: Launch, sweep: SweepPlan, tolerance: float | None, freeze: str | None) -> list[TrialSpec]:
    """The trials of the recommended setting, or of the one that is named. Raises ConfigError."""
    specs = sweep.specs
    labels = {
        (label := spec.freeze.label): {label, spec.freeze.word, freeze_name(spec.freeze, spec.model.n_layers)}
        for spec in specs
    }
    if freeze is not None:
        wanted = [label for label, names in labels.items() if freeze in names]
        if len(wanted) != 1:
            raise ConfigError(f"--freeze {freeze!r}: {sweep.name} has {', '.join(labels)}.")
        chosen = wanted[0]
        matching = [spec for spec in specs if spec.freeze.label == chosen]
    else:
        answers = answers_of(launch.results, specs, plan_with(sweep.decision_plan, tolerance=tolerance))
        decided = [answer for answer in answers if answer.freeze is not None]
        if not decided:
            raise ConfigError(
                f"{sweep.name}: nothing is recommended yet. `permafrost answer --sweep {sweep.name}` says what it "
                f"takes; --tolerance takes a larger loss, --freeze names a setting ({', '.join(labels)})."
            )
        matching = [
            spec
            for answer in decided
            for spec in specs
            if spec.freeze.label == answer.freeze and (spec.task, spec.data.name, spec.model.name, spec.train_size)
            == (answer.task, answer.corpus, answer.model, answer.train_size)
        ]  # fmt: skip
    if (n := len({spec.cell_id for spec in matching})) != 1:
        what = "settings of that name" if freeze is not None else "recommended settings"
        raise ConfigError(f"{sweep.name}: has {n} {what}, of several corpora, models or recipes. "
                          "Make a sweep of one of them.")  # fmt: skip
    return matching


def _on_all_of_train(spec: TrialSpec, *, with_dev: bool) -> TrialSpec:
    """The setting on all of train; or on train and dev together, but for the share that chooses the epoch."""
    data = spec.data
    if with_dev:
        pooled = (*data.train, *data.dev)
        changes = {"train": pooled, "dev": (), "held_out": WATCHED, "folds": None, "fold": 0, "sizes": None}
        changes["fingerprint"] = fingerprint(pooled, (), data.test, data.mismatched)
        data = data.model_copy(update=changes)
    corpus = read_corpus(spec.task, data)
    sizes = len(corpus.train), len(corpus.dev), len(corpus.test)
    content = data.model_copy(update={"sizes": sizes}).model_dump()
    return TrialSpec.model_validate(spec.model_dump() | {"data": content, "train_size": sizes[0]})

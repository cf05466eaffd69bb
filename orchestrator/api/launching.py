"""Plan and launch a sweep that a file, a mapping or a `Sweep` declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.api.answering import Answers, answers_of, plan_with
from orchestrator.api.tabulating import Table
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.config.notebook import CONSOLE, ShownInCell, notebook_output
from orchestrator.config.quantities import amount, duration
from orchestrator.config.yaml_document import Document
from orchestrator.session.launch_loop import Launch
from orchestrator.session.outcome import Ended, Outcome, trials_of
from orchestrator.session.tables import plan_lines
from orchestrator.store import ResultStore
from orchestrator.sweeps.cluster_spec import ClusterSpec, find_cluster
from orchestrator.sweeps.load_sweep import declared_sweep, load_sweep
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from trials.spec import TrialSpec

LISTED = 10  # trials that a plan shows by name

SweepLike = SweepSpec | Mapping[str, Any] | Path | str
"""A sweep, the content of its file, or the file's path."""


@dataclass(frozen=True, repr=False)
class Launched(ShownInCell, Ended):
    """A launch that has ended, with the store that has its rows."""

    store: ResultStore

    @classmethod
    def from_end(cls, ended: Ended, store: ResultStore) -> Launched:
        """What a launch came to, from its end."""
        return cls(**vars(ended), store=store)

    @property
    def trials(self) -> list[TrialSpec]:
        """All trials of the sweep."""
        return trials_of(self.plan, self.store)

    @property
    def table(self) -> Table:
        """One row per setting, as `permafrost launch` prints them."""
        return Table.from_store(self.store, self.plan.stored_plan(), self.trials)

    def answers(self, tolerance: float | None = None) -> Answers:
        """What to freeze; `tolerance` is the acceptable loss in points, None for the sweep's own."""
        return answers_of(self.store, self.trials, plan_with(self.plan.sweep.decision_plan, tolerance=tolerance))

    def _draw(self, console: Console) -> None:
        for line in [*outcome_lines(self.outcome), *self.found, *resume_lines(self.stopped, "launch")]:
            console.print(line, soft_wrap=True)
        self.table._draw(console)


@dataclass(frozen=True, repr=False)
class Planned(ShownInCell, Plan):
    """A plan with the store that it was made for.

    Attributes:
        store: The address of the store.
        cluster: Where the trials would run.
    """

    store: str = ""
    cluster: ClusterSpec = field(default_factory=ClusterSpec)

    @classmethod
    def from_plan(cls, plan: Plan, store: ResultStore, cluster: ClusterSpec) -> Planned:
        """A plan for a store and a cluster."""
        content = {attribute.name: getattr(plan, attribute.name) for attribute in fields(plan)}
        return cls(**content, store=str(store.address), cluster=cluster)

    def _draw(self, console: Console) -> None:
        listed = [f"        {spec.label}" for spec in self.to_run[:LISTED]]
        more = [f"        and {len(self.to_run) - LISTED:,} more"] if len(self.to_run) > LISTED else []
        for line in [*plan_lines(self, self.store, self.cluster), *listed, *more]:
            console.print(line, soft_wrap=True)


def outcome_lines(outcome: Outcome) -> list[str]:
    """The counts of a launch as lines of text."""
    counts = {"completed": outcome.completed, "pruned": outcome.pruned, "failed": outcome.failed}
    text = ", ".join(f"{n:,} {word}" for word, n in counts.items() if n or word == "completed")
    before = f"; {outcome.skipped:,} were complete in the store" if outcome.skipped else ""
    others = f"; other drivers ran {outcome.elsewhere:,} of them" if outcome.elsewhere else ""
    return [
        f"sweep   {outcome.sweep}: {text} of {amount(outcome.planned, 'trial')} in {duration(outcome.wall_s)}"
        + others
        + before,
        f"store   {outcome.store}",
    ]


def resume_lines(stopped: str | None, call: str) -> list[str]:
    """Why a launch stopped early, and how to go on from Python."""
    return [stopped, f"Call `{call}` again with the same arguments to resume."] if stopped else []


def plan(
    sweep: SweepLike,
    *,
    store: str = DEFAULT_STORE,
    cluster: str | None = None,
    cpus: int | None = None,
    gpus: int | None = None,
    offline: bool = False,
) -> Planned:
    """The trials of a sweep, and which of them the store lacks. Nothing is written.

    Args:
        sweep: The sweep.
        store: A folder, s3://bucket/prefix or gs://bucket/prefix; it need not exist.
        cluster: As of `permafrost launch --cluster`.
        cpus, gpus: Cores and GPUs of this machine that a launch would use; None for all that this process may.
        offline: Refuse to download.

    Raises:
        ConfigError: All errors of the sweep, each with its key.
        StoreError: The store cannot be read.
    """
    launch = Launch.begin(find_cluster(cluster, cpus=cpus, gpus=gpus), store, CONSOLE)
    with launch.lookup(offline=offline) as lookup:
        return Planned.from_plan(launch.plan(*declaration_of(sweep), lookup), launch.results, launch.where)


@notebook_output("stopped; finished trials are in the store. Call `launch` again with the same arguments to resume.")
def launch(
    sweep: SweepLike,
    *,
    store: str = DEFAULT_STORE,
    cluster: str | None = None,
    cpus: int | None = None,
    gpus: int | None = None,
    max_hours: float | None = None,
    max_trials: int | None = None,
    offline: bool = False,
) -> Launched:
    """Run the trials of a sweep that the store lacks.

    Ctrl-C, or a notebook's stop button, lets running trials go on to their next evaluation; what is done is kept, and
    `Launched.stopped` says what is left. A second one stops at once, with KeyboardInterrupt.

    Args:
        sweep: The sweep.
        store: A folder, s3://bucket/prefix or gs://bucket/prefix; created if there is none.
        cluster: `local` for Ray on this machine, `inline` for this process, `auto` for the Ray cluster of this
            machine, or a cluster file; None for `local`, or `inline` where Ray does not start.
        cpus, gpus: Cores and GPUs of this machine that it uses; None for all that this process may.
        max_hours: Limit of this launch; launch again to go on.
        max_trials: The most trials that it runs.
        offline: Refuse to download.

    Raises:
        ConfigError: All errors of the sweep, each with its key.
        RefusedError: Another driver runs this sweep.
        StoreError: The store cannot be read or written.
    """
    where = find_cluster(cluster, cpus=cpus, gpus=gpus)
    launch = Launch.begin(where, store, CONSOLE, max_hours=max_hours, max_trials=max_trials)
    with launch.lookup(offline=offline) as lookup:
        plan = launch.plan(*declaration_of(sweep), lookup)
    with launch.run(plan) as ended:
        done = Launched.from_end(ended, launch.results)
        for line in resume_lines(done.stopped, "launch"):
            launch.say(line)
    return done


def declaration_of(sweep: SweepLike) -> tuple[SweepSpec, Document]:
    """A sweep with the document that its errors point into. Raises ConfigError."""
    if isinstance(sweep, str | Path):
        return load_sweep(Path(sweep), [])
    content = sweep.model_dump(exclude_unset=True) if isinstance(sweep, SweepSpec) else dict(sweep)
    document = Document(Path(str(content.get("name", "sweep"))), content, {})
    return (sweep if isinstance(sweep, SweepSpec) else declared_sweep(document)), document

"""A plan: the trials of a sweep, less those that the store already has."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from orchestrator.store import ResultStore
from orchestrator.store.results import SweepPlan
from orchestrator.sweep import SweepSpec, expand
from orchestrator.yaml_file import Document
from trials.draft import Lookup
from trials.prefix.rule import prefix_depth
from trials.spec import TrialSpec
from trials.tasks.reading import unseen_notes


@dataclass(frozen=True)
class Plan:
    """What a launch is about to do.

    Attributes:
        sweep: The sweep.
        source: The file that declares it.
        trials: All of its trials, in its order.
        to_run: Those that no sweep in this store has completed, in the order they are run in.
        attempts: The number of each one's next attempt.
        notes: What a person should know of the data, a sentence each.
    """

    sweep: SweepSpec
    source: str
    trials: tuple[TrialSpec, ...]
    to_run: tuple[TrialSpec, ...]
    attempts: dict[str, int]
    notes: tuple[str, ...] = ()

    @property
    def n_skipped(self) -> int:
        """Trials that need not run."""
        return len(self.trials) - len(self.to_run)

    @property
    def n_cells(self) -> int:
        """Cells of the sweep."""
        return len({spec.cell_id for spec in self.trials})

    def declared(self) -> SweepPlan:
        """The plan as the store keeps it."""
        specs = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in self.trials)
        return SweepPlan(self.sweep.name, time.time(), self.source, specs)


def make_plan(sweep: SweepSpec, document: Document, store: ResultStore, lookup: Lookup) -> Plan:
    """Expand a sweep and take out what is complete. Raises what `expand` and reading the store raise."""
    trials = tuple(expand(sweep, document, lookup))
    plan = brought_up_to_date(Plan(sweep, str(document.path), trials, (), {}), store)
    corpora = dict.fromkeys((spec.task, spec.data) for spec in plan.to_run)
    notes = tuple(note for task, data in corpora for note in unseen_notes(task, data))
    return replace(plan, notes=notes)


def brought_up_to_date(plan: Plan, store: ResultStore) -> Plan:
    """The same trials, less what the store has by now. Raises what reading the store raises."""
    done, attempts = store.completed_ids(), store.attempts()
    to_run = tuple(as_neighbours(spec for spec in plan.trials if spec.trial_id not in done))
    following = {spec.trial_id: attempts.get(spec.trial_id, 0) + 1 for spec in to_run}
    return replace(plan, to_run=to_run, attempts=following)


def as_neighbours(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """Trials that share model, tokens and frozen prefix next to each other, so that a worker keeps them warm.

    What they share comes in the order of the sweep, and inside it the shallowest prefix first: deeper ones are built
    from it, and the long trials are not the last.
    """
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    for spec in specs:
        shared = (spec.task, spec.model.revision, spec.data, spec.max_length, spec.lowercase, spec.precision)
        groups.setdefault(shared, []).append(spec)
    return [spec for group in groups.values() for spec in sorted(group, key=prefix_depth)]

"""A plan: the trials of a sweep, less those that the store already has."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from orchestrator.config.yaml_document import Document
from orchestrator.store import ResultStore
from orchestrator.store.plans import SweepPlan
from orchestrator.sweeps.search_checks import check_search
from orchestrator.sweeps.space import again
from orchestrator.sweeps.sweep import SweepSpec, expand, layers_of, replicates
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
        trials: All of its trials, in its order; of a search that learns, those it has suggested so far.
        to_run: Those that no sweep in this store has completed, in the order they are run in. With a schedule, a race,
            a goal or a bound fewer may run.
        attempts: The number of the next attempt of each trial that was ever tried; of others it is 1.
        notes: What a person should know of the data, a sentence each.
        stand_ins: Of a search that learns: trials of random cells, as many as it may still suggest.
        lookup: Looks files and models up.
    """

    sweep: SweepSpec
    source: str
    trials: tuple[TrialSpec, ...]
    to_run: tuple[TrialSpec, ...]
    attempts: dict[str, int]
    notes: tuple[str, ...] = ()
    stand_ins: tuple[TrialSpec, ...] = ()
    lookup: Lookup = field(default_factory=Lookup, repr=False)

    @property
    def ahead(self) -> tuple[TrialSpec, ...]:
        """What is to run, with stand-ins for what will be suggested: for figures of how much that is."""
        return (*self.to_run, *self.stand_ins)

    def next_attempt(self, trial_id: str) -> int:
        """The number of a trial's next attempt."""
        return self.attempts.get(trial_id, 1)

    @property
    def runs_all(self) -> bool:
        """Whether all of that will run, rather than at most that."""
        sweep = self.sweep
        return sweep.schedule.kind == "none" and sweep.racing is None and sweep.goal is None

    @property
    def n_trials(self) -> int:
        """Trials of the sweep, those not yet suggested too."""
        return len(self.trials) + len(self.stand_ins)

    @property
    def n_skipped(self) -> int:
        """Trials that need not run."""
        return len(self.trials) - len(self.to_run)

    @property
    def n_cells(self) -> int:
        """Cells of the sweep."""
        return len({spec.cell_id for spec in (*self.trials, *self.stand_ins)})

    def declared(self) -> SweepPlan:
        """The plan as the store keeps it."""
        return self.sweep_plan(self.trials)

    def sweep_plan(self, trials: Iterable[TrialSpec]) -> SweepPlan:
        """Some trials of it as the store keeps them."""
        specs = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in trials)
        return SweepPlan(self.sweep.name, time.time(), self.source, specs)


def make_plan(sweep: SweepSpec, document: Document, store: ResultStore, lookup: Lookup) -> Plan:
    """Expand a sweep and take out what is complete.

    Raises:
        ConfigError: all that is wrong with the sweep.
        StoreError: the store cannot be read.
    """
    expanded = tuple(expand(sweep, document, lookup))
    check_search(sweep, expanded, document)
    learns = sweep.search.is_adaptive
    plan = Plan(sweep, str(document.path), () if learns else expanded, (), {}, lookup=lookup)
    plan = brought_up_to_date(replace(plan, stand_ins=expanded if learns else ()), store)
    corpora = dict.fromkeys((spec.task, spec.data) for spec in plan.ahead)
    notes = tuple(note for task, data in corpora for note in unseen_notes(task, data))
    return replace(plan, notes=notes)


def brought_up_to_date(plan: Plan, store: ResultStore) -> Plan:
    """The same trials, less what the store has by now. Raises what reading the store raises."""
    plan = _with_suggested(plan, store) if plan.sweep.search.is_adaptive else plan
    done, attempts = store.completed_ids(), store.attempts()
    to_run = tuple(as_neighbours(spec for spec in plan.trials if spec.trial_id not in done))
    return replace(plan, to_run=to_run, attempts={trial_id: n + 1 for trial_id, n in attempts.items()})


def _with_suggested(plan: Plan, store: ResultStore) -> Plan:
    """The cells that were suggested before and are still in the space, and no more stand-ins than may follow."""
    sweep, found, n_layers = plan.sweep, dict[str, TrialSpec](), layers_of(plan.sweep, plan.lookup)
    for suggested in store.suggestions(sweep.name):
        point = again(sweep.space, suggested.parameters, n_layers, lambda name, axis: None)
        if point is not None:
            found |= {spec.trial_id: spec for spec in replicates(sweep, point, plan.lookup)}
    assert sweep.search.cells is not None
    left = sweep.search.cells - len({spec.cell_id for spec in found.values()})
    cells = dict.fromkeys(spec.cell_id for spec in plan.stand_ins if spec.trial_id not in found)
    kept = set(list(cells)[: max(left, 0)])
    stand_ins = tuple(spec for spec in plan.stand_ins if spec.cell_id in kept)
    return replace(plan, trials=tuple(found.values()), stand_ins=stand_ins)


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

"""A plan: the trials of a sweep minus those that the store has completed."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from orchestrator.config.quantities import counted
from orchestrator.config.yaml_document import Document
from orchestrator.store import ResultStore
from orchestrator.store.sweep_plans import Suggestion, SweepPlan
from orchestrator.sweeps.earlier_launch import change_notes, held_to_last
from orchestrator.sweeps.expansion import expand, layers_of, replicates
from orchestrator.sweeps.notes import plan_notes
from orchestrator.sweeps.plan_checks import check_search
from orchestrator.sweeps.search_spec import GoalSpec
from orchestrator.sweeps.space import again
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup
from trials.prefix.rule import prefix_depth
from trials.spec import TrialSpec


@dataclass(frozen=True)
class Plan:
    """What a launch will do.

    Attributes:
        trials: All of its trials, in order; for an adaptive search, those suggested so far.
        to_run: Those not completed in this store, in execution order. With a schedule, a goal or a limit fewer
            may run.
        attempts: Number of the next attempt of each trial that was tried before; 1 for others.
        notes: Sentences about the data and the models that the user should read.
        stand_ins: For an adaptive search: trials of random cells, as many as it may still suggest.
        kept_steps: Optimiser step of the checkpoint from which a trial to run resumes; absent for one that starts anew.
        suggestions: Of an adaptive search: what its sampler suggested so far, in order.
        sweep: As its file has it, its goal held to the seeds of the last plan (`held_to_last`).
    """

    sweep: SweepSpec
    source: str
    trials: tuple[TrialSpec, ...]
    to_run: tuple[TrialSpec, ...]
    attempts: dict[str, int]
    notes: tuple[str, ...] = ()
    stand_ins: tuple[TrialSpec, ...] = ()
    kept_steps: dict[str, int] = field(default_factory=dict)
    suggestions: tuple[Suggestion, ...] = ()
    lookup: Lookup = field(default_factory=Lookup, repr=False)

    @property
    def ahead(self) -> tuple[TrialSpec, ...]:
        """Trials to run, and stand-ins for those yet to be suggested, for estimates of the work."""
        return (*self.to_run, *self.stand_ins)

    def next_attempt(self, trial_id: str) -> int:
        """The number of a trial's next attempt."""
        return self.attempts.get(trial_id, 1)

    @property
    def runs_all(self) -> bool:
        """Whether all of them will run, rather than at most these."""
        sweep = self.sweep
        return sweep.schedule.kind == "none" and not sweep.chooses_depth

    @property
    def n_trials(self) -> int:
        """Trials of the sweep, including those not yet suggested."""
        return len(self.trials) + len(self.stand_ins)

    @property
    def n_skipped(self) -> int:
        """Trials that are already completed."""
        return len(self.trials) - len(self.to_run)

    @property
    def n_cells(self) -> int:
        """Cells of the sweep."""
        return len({spec.cell_id for spec in (*self.trials, *self.stand_ins)})

    def declared(self) -> SweepPlan:
        """The plan as it is stored."""
        return self.sweep_plan(self.trials, self.suggestions)

    def sweep_plan(self, trials: Iterable[TrialSpec], suggestions: tuple[Suggestion, ...] = ()) -> SweepPlan:
        """Some of its trials and suggestions as a stored plan."""
        specs = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in trials)
        goal = self.sweep.decision_plan.as_json()
        return SweepPlan(self.sweep.name, time.time(), self.source, specs, suggestions, goal)


def make_plan(sweep: SweepSpec, document: Document, store: ResultStore, lookup: Lookup) -> Plan:
    """Expand a sweep and remove completed trials; its decisions go by the seeds that were planned first.

    Raises:
        ConfigError: all errors of the sweep.
        StoreError: the store cannot be read.
    """
    expanded = tuple(expand(sweep, document, lookup))
    check_search(sweep, expanded, document)
    is_adaptive = sweep.search.is_adaptive
    plan = Plan(sweep, str(document.path), () if is_adaptive else expanded, (), {}, lookup=lookup)
    plan = brought_up_to_date(replace(plan, stand_ins=expanded if is_adaptive else ()), store)
    pins = (f"{phrase}. Write it with the version to keep this one." for phrase in lookup.resolved.values())
    changes = change_notes(sweep.name, expanded, store) if plan.ahead and not is_adaptive else ()
    notes = (*pins, *changes, *lookup.spellings, *plan_notes(sweep, plan.ahead, lookup))
    planned = held_to_last(sweep, (*plan.trials, *plan.stand_ins), store)
    if planned is not None:
        goal = (sweep.goal or GoalSpec()).model_copy(update={"most_seeds": planned})
        plan = replace(plan, sweep=sweep.model_copy(update={"goal": goal}))
        notes = (*notes, _HELD.format(counted(planned, "seed")))
    return replace(plan, notes=notes)


_HELD = (
    "the last launch declared {}, which may have been looked at: decisions still go by that number, and seeds beyond "
    "it decide by what was kept of the error. `goal: {{most_seeds: N}}` sets another, and adds error."
)


def brought_up_to_date(plan: Plan, store: ResultStore) -> Plan:
    """The same plan without the trials completed meanwhile. Raises StoreError."""
    plan = _with_suggested(plan, store) if plan.sweep.search.is_adaptive else plan
    done, attempts = store.completed_ids(), store.attempts()
    to_run = tuple(as_neighbours(spec for spec in plan.trials if spec.trial_id not in done))
    steps = store.checkpoint_steps() if attempts else {}
    kept = {spec.trial_id: steps[spec.trial_id] for spec in to_run if steps.get(spec.trial_id)}
    return replace(plan, to_run=to_run, kept_steps=kept, attempts={trial_id: n + 1 for trial_id, n in attempts.items()})


def _with_suggested(plan: Plan, store: ResultStore) -> Plan:
    """The plan with earlier suggestions that are still in the space, and stand-ins for the rest."""
    sweep, by_id, n_layers = plan.sweep, dict[str, TrialSpec](), layers_of(plan.sweep, plan.lookup)
    suggestions = store.suggestions(sweep.name)
    for suggestion in suggestions:
        point = again(sweep.space, suggestion.parameters, n_layers, lambda name, axis: None)
        if point is not None:
            by_id |= {spec.trial_id: spec for spec in replicates(sweep, point, plan.lookup)}
    assert sweep.search.cells is not None
    left = sweep.search.cells - len({spec.cell_id for spec in by_id.values()})
    cells = dict.fromkeys(spec.cell_id for spec in plan.stand_ins if spec.trial_id not in by_id)
    wanted = set(list(cells)[: max(left, 0)])
    stand_ins = tuple(spec for spec in plan.stand_ins if spec.cell_id in wanted)
    trials = tuple(by_id.values())
    return replace(plan, trials=trials, stand_ins=stand_ins, suggestions=suggestions)


def as_neighbours(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """Trials that share model and tokens next to each other, so that a worker reuses them; a block a seed within.

    Groups follow the order of the sweep. A block holds every setting once, so that a neighbour's load on the machine
    slows all settings alike and is not read as time saved. Within a block the shallowest frozen prefix comes first,
    because deeper ones build on it and long trials should not be last.
    """
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    block: dict[int, int] = {}  # of a seed, in the order of the sweep
    for spec in specs:
        shared = (spec.task, spec.model.revision, spec.data, spec.max_length, spec.lowercase, spec.precision)
        groups.setdefault(shared, []).append(spec)
        block.setdefault(spec.seeds.key, len(block))
    return [
        spec
        for group in groups.values()
        for spec in sorted(group, key=lambda spec: (block[spec.seeds.key], prefix_depth(spec)))
    ]

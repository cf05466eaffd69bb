"""A plan: the trials of a sweep minus those that the store has completed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.analysis.cells import cell_specs
from orchestrator.config.quantities import amount
from orchestrator.config.yaml_document import Document
from orchestrator.store import ResultStore
from orchestrator.store.plans import Suggestion, SweepPlan, checked_spec
from orchestrator.sweeps.expansion import expand, layers_of, replicates
from orchestrator.sweeps.notes import plan_notes
from orchestrator.sweeps.plan_checks import check_search
from orchestrator.sweeps.search_spec import GoalSpec
from orchestrator.sweeps.space import rebuild
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup
from trials.prefix.rule import prefix_depth
from trials.spec import SEEDS, DataSpec, ModelSpec, TrialSpec

_SPLITS = ("train", "dev", "test", "mismatched")
_MOST = 3  # settings that are named
_APART = {"data", "model", "freeze"} | SEEDS  # said by themselves, or varied on purpose


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
        sweep: As its file has it, its goal held to the seeds of the last plan (`_seeds_of_last_plan`).
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
    def workload(self) -> tuple[TrialSpec, ...]:
        """Trials to run, and stand-ins for those yet to be suggested, for estimates of the work."""
        return (*self.to_run, *self.stand_ins)

    @cached_property
    def has_models(self) -> bool:
        """Whether its trials have several models."""
        return len({spec.model.name for spec in (*self.trials, *self.stand_ins)}) > 1

    def label(self, spec: TrialSpec) -> str:
        """The label of a trial, with its model in front where the sweep has several models."""
        return f"{spec.model.name.replace('/', '-')}_{spec.label}" if self.has_models else spec.label

    @property
    def runs_all(self) -> bool:
        """Whether all trials will run. In a search or with early stopping only some of them do."""
        sweep = self.sweep
        return sweep.schedule.kind == "none" and not sweep.chooses_depth

    @property
    def is_search(self) -> bool:
        """Whether results decide which of its trials run, and how far; one driver at a time decides."""
        return not self.runs_all or self.sweep.search.is_adaptive

    def without_completed(self, store: ResultStore) -> Plan:
        """The same plan without the trials completed meanwhile. Raises StoreError."""
        plan = _with_suggested(self, store) if self.sweep.search.is_adaptive else self
        done, attempts = store.completed_ids(), store.attempts()
        to_run = tuple(group_by_model(spec for spec in plan.trials if spec.trial_id not in done))
        steps = store.checkpoint_steps() if attempts else {}
        kept = {spec.trial_id: steps[spec.trial_id] for spec in to_run if steps.get(spec.trial_id)}
        return replace(
            plan, to_run=to_run, kept_steps=kept, attempts={trial_id: n + 1 for trial_id, n in attempts.items()}
        )

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

    def stored_plan(self) -> SweepPlan:
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
    plan = replace(plan, stand_ins=expanded if is_adaptive else ()).without_completed(store)
    pins = (f"{phrase}. Write it with the version to keep this one." for phrase in lookup.resolved.values())
    changes = _change_notes(sweep.name, expanded, store) if plan.workload and not is_adaptive else ()
    notes = (*pins, *changes, *lookup.spellings, *plan_notes(sweep, plan.workload, lookup))
    planned = _seeds_of_last_plan(sweep, (*plan.trials, *plan.stand_ins), store)
    if planned is not None:
        goal = (sweep.goal or GoalSpec()).model_copy(update={"most_seeds": planned})
        plan = replace(plan, sweep=sweep.model_copy(update={"goal": goal}))
        notes = (*notes, _planned_note(planned, (*plan.trials, *plan.stand_ins)))
    return replace(plan, notes=notes)


def _planned_note(planned: int, trials: Sequence[TrialSpec]) -> str:
    """How the seeds that were planned first count, and what those beyond them cost."""
    from orchestrator.analysis.prospects import growth_text  # loads scipy

    text, now, spec = (
        f"{amount(planned, 'seed')} were planned before any loss was seen",
        _most_replicates(trials),
        trials[0],
    )
    text += ", and the answer still goes by that plan"
    if now > planned and spec.data.sizes is not None:
        text += f": {growth_text(spec.task, spec.data.sizes[1], planned, now)}, if losses vary as in FreezeBench"
    return f"{text}. `goal: {{most_seeds: N}}` counts by another number, and adds error."


def _with_suggested(plan: Plan, store: ResultStore) -> Plan:
    """The plan with earlier suggestions that are still in the space, and stand-ins for the rest."""
    sweep, by_id, n_layers = plan.sweep, dict[str, TrialSpec](), layers_of(plan.sweep, plan.lookup)
    suggestions = store.suggestions(sweep.name)
    for suggestion in suggestions:
        point = rebuild(sweep.space, suggestion.parameters, n_layers, lambda name, axis: None)
        if point is not None:
            by_id |= {spec.trial_id: spec for spec in replicates(sweep, point, plan.lookup)}
    assert sweep.search.cells is not None
    n_unsuggested = sweep.search.cells - len({spec.cell_id for spec in by_id.values()})
    cells = dict.fromkeys(spec.cell_id for spec in plan.stand_ins if spec.trial_id not in by_id)
    wanted = set(list(cells)[: max(n_unsuggested, 0)])  # as many as the search has still to suggest
    stand_ins = tuple(spec for spec in plan.stand_ins if spec.cell_id in wanted)
    trials = tuple(by_id.values())
    return replace(plan, trials=trials, stand_ins=stand_ins, suggestions=suggestions)


def group_by_model(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """Trials that share model and tokens next to each other, so that a worker reuses them; a block a seed within.

    Groups follow the order of the sweep. A block holds every setting once, so that a neighbour's load on the machine
    slows all settings alike and is not read as time saved. Within a block the shallowest frozen prefix comes first,
    because deeper ones build on it and long trials should not be last.
    """
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    block: dict[int, int] = {}  # the number of each seed, in the order of the sweep
    for spec in specs:
        shared = (spec.task, spec.model.revision, spec.data, spec.max_length, spec.lowercase, spec.precision)
        groups.setdefault(shared, []).append(spec)
        block.setdefault(spec.seeds.key, len(block))
    return [
        spec
        for group in groups.values()
        for spec in sorted(group, key=lambda spec: (block[spec.seeds.key], prefix_depth(spec)))
    ]


def _seeds_of_last_plan(sweep: SweepSpec, trials: Sequence[TrialSpec], store: ResultStore) -> int | None:
    """The seeds that the sweep's last plan declared, if another number is declared now, though trials of before have
    been looked at: by these most of the error is spent, and those beyond share what was kept for them
    (`analysis.looks`). So a plan that grows adds no error, as each holds to the one before.

    None where the number is the same, nothing could be looked at yet, or the file has a number (`most_seeds`).

    Args:
        trials: All of the sweep; for an adaptive search, with stand-ins.

    Raises:
        StoreError: The store cannot be read.
    """
    earlier = next((plan for plan in store.sweeps() if plan.name == sweep.name), None)
    if earlier is None or sweep.decision_plan.most_seeds is not None:
        return None
    now, before = {spec.trial_id: spec for spec in trials}, dict(earlier.trials)
    # A spec that is planned again has been validated: only the others are parsed, which takes most of the time.
    declared = [now.get(trial_id) or checked_spec(spec, trial_id) for trial_id, spec in before.items()]
    looks = earlier.decision_plan.looks(_most_replicates(spec for spec in declared if isinstance(spec, TrialSpec)))
    done = store.completed_ids() & now.keys() & before.keys()
    if _most_replicates(now[trial_id] for trial_id in done) < looks.first:
        return None
    return looks.planned if looks.planned != sweep.decision_plan.looks(_most_replicates(trials)).planned else None


def _most_replicates(trials: Iterable[TrialSpec]) -> int:
    """The most replicates of any cell."""
    return max(map(len, cell_specs(trials).values()), default=0)


def _change_notes(sweep: str, trials: Sequence[TrialSpec], store: ResultStore) -> Iterator[str]:
    """A sentence for each corpus and model whose files changed, else for the settings that did.

    Raises:
        StoreError: The store cannot be read.
    """
    earlier = next((plan for plan in store.sweeps() if plan.name == sweep), None)
    if earlier is None or not trials or {trial_id for trial_id, _ in earlier.trials} >= {t.trial_id for t in trials}:
        return
    old = [spec for _, spec in earlier.trials]
    is_said = False
    for used in dict.fromkeys(part for spec in trials for part in (spec.data, spec.model)):
        key, digest = ("data", "fingerprint") if isinstance(used, DataSpec) else ("model", "revision")
        same = [spec for spec in old if spec[key]["name"] == used.name]
        if same and getattr(used, digest) not in {spec[key][digest] for spec in same}:
            is_said = True
            n = amount(len(same), "trial")
            yield f"{_changed_files(used, same[-1][key], earlier.time)}, so the {n} of before cannot be used again."
    if not is_said and not {trial_id for trial_id, _ in earlier.trials} & {t.trial_id for t in trials}:
        changes = [*_settings(old, [spec.model_dump(mode="json") for spec in trials])]
        if changes:
            yield (
                f"since the last launch {', '.join(changes[:_MOST])}: other settings, so its trials are not used again."
            )


def _changed_files(used: DataSpec | ModelSpec, before: Mapping[str, Any], launched: float) -> str:
    """Which files changed: those at the same place that are newer than the last launch, else the place itself."""
    if isinstance(used, ModelSpec):
        return f"model {used.name}: its files changed since the last launch"
    paths = [path for split in _SPLITS for path in getattr(used, split)]
    if used.train != tuple(before["train"]) or used.dev != tuple(before["dev"]):
        return f"{used.name}: its files are others than in the last launch"
    newer = [Path(path).name for path in dict.fromkeys(paths) if _mtime(path) > launched]
    return f"{', '.join(newer) or used.name} changed since the last launch"


def _mtime(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0


def _settings(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`optim.lr was 0.001`, for each setting that no trial has as any had it."""
    before, now = _values(old), _values(new)
    for key in before.keys() & now.keys():
        if not before[key].keys() & now[key].keys():
            yield f"{key} was {' or '.join([*before[key]][:_MOST])}, is {' or '.join([*now[key]][:_MOST])}"


def _values(specs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, None]]:
    """The values of each dotted setting, as text, in order."""
    values: dict[str, dict[str, None]] = {}
    for spec in specs:
        for key, value in spec.items():
            inner = value if isinstance(value, dict) else {"": value}
            for name, inner_value in inner.items() if key not in _APART else ():
                shown = f"{inner_value:g}" if isinstance(inner_value, float) else str(inner_value)
                values.setdefault(f"{key}.{name}".rstrip("."), {})[shown] = None
    return values

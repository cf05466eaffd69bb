"""What a plan checks and tells: whether its search fits its trials, what it owes to the sweep's last plan, and why
earlier trials are not used again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.cells import by_cell, objective_group
from orchestrator.config.quantities import counted
from orchestrator.config.yaml_document import Document, KeyPath
from orchestrator.store import ResultStore
from orchestrator.store.contents import checked_spec
from orchestrator.sweeps.search_spec import COSTS
from trials.errors import ConfigError, unknown
from trials.settings import DataSpec, ModelSpec
from trials.spec import SEEDS, TrialSpec
from trials.tasks import TASKS

if TYPE_CHECKING:
    from orchestrator.sweeps.sweep import SweepSpec


Problem = tuple[KeyPath, str]


def check_search(sweep: SweepSpec, trials: Sequence[TrialSpec], document: Document) -> None:
    """Validate a sweep with its trials; for an adaptive search, with samples of them. Raises ConfigError."""
    problems = [*_contradictions(sweep), *_objectives(sweep, trials), *_ranks(sweep, trials), *_goal(sweep, trials)]
    problems += _pairs(sweep, trials)
    if problems:
        raise ConfigError([document.place(path) + text for path, text in problems])


def _contradictions(sweep: SweepSpec) -> Iterator[Problem]:
    if sweep.chooses_depth and sweep.schedule.kind != "none":
        yield ("goal",), "schedule and goal exclude each other, as each decides what runs. Keep one."
    if sweep.chooses_depth and sweep.search.is_adaptive:
        yield (
            ("goal",),
            f"needs all cells from the start, but `search: {sweep.search.kind}` chooses them from results. Use a grid.",
        )
    if sweep.schedule.kind == "asha" and sweep.checkpoint.is_off:
        yield (
            ("schedule",),
            "asha resumes paused trials, but with `checkpoint: off` they would start again. Leave `checkpoint` out.",
        )


def _pairs(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """`choose_depth` compares cells under the same seeds."""
    if sweep.chooses_depth and len({tuple(s.seeds for s in cell) for cell in by_cell(trials).values()}) > 1:
        yield (
            ("goal",),
            "compares cells under the same seeds, but `init_seed` or `order_seed` differ between cells. Give every "
            "cell the same ones in a grid.",
        )


def _objectives(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    tasks = sorted({spec.task for spec in trials})
    for i, name in enumerate(sweep.search.objectives):
        if name.startswith("test"):
            yield (
                ("search", "objectives", i),
                f"{name}: a search selects on dev, and the test split shows how good its choice is. Use `score`.",
            )
            continue
        if name == "peak_memory_bytes" and sweep.resources.gpus in (0, "auto"):  # on a cluster `auto` may be either
            yield (
                ("search", "objectives", i),
                "peak_memory_bytes: a trial on a CPU shares its process's memory with those before it, so it has none "
                "of its own to compare. Use `trainable_params`, or give trials a GPU (`resources.gpus`).",
            )
            continue
        for task in tasks:
            allowed = ["score", *TASKS[task].metrics, *COSTS]
            if name not in allowed:
                yield ("search", "objectives", i), f"{unknown(name, allowed)} ({task} reports these.)"
                break


def _ranks(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """Scores of different objective groups are not comparable."""
    groups = list(dict.fromkeys(map(objective_group, trials)))
    if len(groups) > 1 and sweep.search.is_adaptive:
        yield (
            ("search",),
            (
                f"{sweep.search.kind} ranks cells by score, but these belong to {_named(groups)}, which are not "
                "comparable. Make one sweep per group, or use `search: random`."
            ),
        )
    if len(groups) > 1 and sweep.schedule.kind != "none" and not sweep.schedule.each_group:
        yield (
            ("schedule",),
            (
                f"{sweep.schedule.kind} ranks cells by score, but these belong to {_named(groups)}, which are not "
                "comparable. Set `each_group: true` to rank within each group, or make one sweep per group."
            ),
        )
    if sweep.schedule.kind == "asha" and trials:
        by_examples = sweep.schedule.by == "examples"
        end = max(spec.optim.epochs * (spec.train_size if by_examples else 1) for spec in trials)
        if sweep.schedule.first >= end:
            yield (
                ("schedule", "first"),
                (
                    f"{sweep.schedule.first:g} {sweep.schedule.by} cover every trial completely (at most {end}). "
                    "Use a smaller value."
                ),
            )


def _named(groups: Sequence[tuple[str, str, str, int]]) -> str:
    shown = [f"{corpus} with {size:,} ({metric})" for _, metric, corpus, size in groups[:2]]
    return f"{len(groups)} objective groups ({', '.join(shown)}{', ...' if len(groups) > 2 else ''})"


def _goal(sweep: SweepSpec, trials: Sequence[TrialSpec]) -> Iterator[Problem]:
    """`choose_depth` needs one set-up with one baseline."""
    if sweep.goal is None or sweep.goal.choose_depth is None:
        return
    path = ("goal", "choose_depth")
    n_cells = len({spec.cell_id for spec in trials})
    if not any(spec.freeze.is_baseline for spec in trials):
        yield path, "needs a baseline, but every cell freezes something. Add `none` to `freeze`."
    elif len({spec.at_rate(1.0).baseline_id for spec in trials}) > 1 or n_cells > len({spec.freeze for spec in trials}):
        yield (
            path,
            (
                "needs one baseline, but the cells differ in more than their freeze. Vary only `freeze` (each may have "
                "a learning rate of its own), and make one sweep per other setting."
            ),
        )
    if not any(not spec.freeze.is_baseline for spec in trials):
        yield path, "has no freeze to choose. Add some to `freeze`."
    freezes = sorted({spec.freeze for spec in trials}, key=lambda freeze: freeze.extent)
    for less, more in itertools.pairwise(freezes):
        if not more.holds(less):
            yield (
                path,
                (
                    f"needs freezes that contain each other, but {more.label} does not freeze all that {less.label} "
                    "does. Keep one strategy, with or without the embeddings."
                ),
            )
            break
    least = sweep.goal.choose_depth.min_seeds
    if len(set(sweep.seeds)) < least:
        yield path, f"needs at least {least} seeds, but the sweep has {len(set(sweep.seeds))}. List more under `seeds`."


# --- What it owes to the sweep's last plan


def held_to_last(sweep: SweepSpec, trials: Sequence[TrialSpec], store: ResultStore) -> int | None:
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
    declared = [now.get(trial_id) or checked_spec(spec, trial_id) for trial_id, spec in before.items()]
    looks = earlier.asks.looks(_most_replicates(spec for spec in declared if isinstance(spec, TrialSpec)))
    done = store.completed_ids() & now.keys() & before.keys()
    if _most_replicates(now[trial_id] for trial_id in done) < looks.first:
        return None
    return looks.planned if looks.planned != sweep.decision_plan.looks(_most_replicates(trials)).planned else None


def _most_replicates(trials: Iterable[TrialSpec]) -> int:
    """Of any cell."""
    return max(map(len, by_cell(trials).values()), default=0)


# --- Why earlier trials are not used again


_SPLITS = ("train", "dev", "test", "mismatched")
_MOST = 3  # settings that are named
_APART = {"data", "model", "freeze"} | SEEDS  # said by themselves, or varied on purpose


def change_notes(sweep: str, trials: Sequence[TrialSpec], store: ResultStore) -> Iterator[str]:
    """A sentence for each corpus and model whose files changed, else for the settings that did.

    Names that were looked up have notes of their own (`plan.pin_notes`).

    Raises:
        StoreError: The store cannot be read.
    """
    earlier = next((plan for plan in store.sweeps() if plan.name == sweep), None)
    if earlier is None or not trials or {trial_id for trial_id, _ in earlier.trials} >= {t.trial_id for t in trials}:
        return
    old = [spec for _, spec in earlier.trials]
    is_said = False
    for used in dict.fromkeys(part for spec in trials for part in (spec.data, spec.model) if part.source is None):
        key, digest = ("data", "fingerprint") if isinstance(used, DataSpec) else ("model", "revision")
        same = [spec for spec in old if spec[key]["name"] == used.name and not spec[key].get("source")]
        if same and getattr(used, digest) not in {spec[key][digest] for spec in same}:
            is_said = True
            n = counted(len(same), "trial")
            yield f"{_changed(used, same[-1][key], earlier.time)}, so the {n} of before cannot be used again."
    if not is_said and not {trial_id for trial_id, _ in earlier.trials} & {t.trial_id for t in trials}:
        changes = [*_settings(old, [spec.model_dump(mode="json") for spec in trials])]
        if changes:
            yield (
                f"since the last launch {', '.join(changes[:_MOST])}: other settings, so its trials are not used again."
            )


def _changed(used: DataSpec | ModelSpec, before: Mapping[str, Any], launched: float) -> str:
    """Which files changed: those at the same place that are newer than the last launch, else the place itself."""
    if isinstance(used, ModelSpec):
        return f"model {used.name}: its files changed since the last launch"
    paths = [path for split in _SPLITS for path in getattr(used, split)]
    if used.train != tuple(before["train"]) or used.dev != tuple(before["dev"]):
        return f"{used.name}: its files are others than in the last launch"
    newer = [Path(path).name for path in dict.fromkeys(paths) if _modified(path) > launched]
    return f"{', '.join(newer) or used.name} changed since the last launch"


def _modified(path: str) -> float:
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

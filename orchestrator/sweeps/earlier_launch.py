"""What a plan has to do with the last launch of its sweep: the seeds it holds to, why trials are not used again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.cells import by_cell
from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from orchestrator.store.stored_specs import checked_spec
from trials.settings import DataSpec, ModelSpec
from trials.spec import SEEDS, TrialSpec

if TYPE_CHECKING:
    from orchestrator.sweeps.sweep import SweepSpec


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


_SPLITS = ("train", "dev", "test", "mismatched")
_MOST = 3  # settings that are named
_APART = {"data", "model", "freeze"} | SEEDS  # said by themselves, or varied on purpose


def change_notes(sweep: str, trials: Sequence[TrialSpec], store: ResultStore) -> Iterator[str]:
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

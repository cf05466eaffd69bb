"""Why trials of a sweep's last launch are not used again: its files or its settings are others now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.config.quantities import counted
from orchestrator.store import ResultStore
from trials.settings import DataSpec, ModelSpec
from trials.spec import SEEDS, TrialSpec

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
        words = [*_settings(old, [spec.model_dump(mode="json") for spec in trials])]
        if words:
            yield f"since the last launch {', '.join(words[:_MOST])}: other settings, so its trials are not used again."


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
    found: dict[str, dict[str, None]] = {}
    for spec in specs:
        for key, value in spec.items():
            inner = value if isinstance(value, dict) else {"": value}
            for name, one in inner.items() if key not in _APART else ():
                shown = f"{one:g}" if isinstance(one, float) else str(one)
                found.setdefault(f"{key}.{name}".rstrip("."), {})[shown] = None
    return found

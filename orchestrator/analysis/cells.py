"""Settings and their replicates: which trials differ in their seeds alone, what names them, which scores compare.

A *cell* is one combination of all settings but the seeds (a "setting" to people); its trials are its replicates. Those
of two cells are paired by `Seeds.key`, i.e. by the seeds of subset, initialisation and order together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from orchestrator.analysis.freeze_names import strip_and_word
from trials.spec import SEEDS, TrialSpec
from trials.tasks.task import score_name

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Group = tuple[str, str, str, int]  # objective group: task, metric, corpus, train size; scores compare inside it only


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by their keys, in order of first appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def cell_specs(specs: Iterable[TrialSpec]) -> dict[str, list[TrialSpec]]:
    """The replicates of each cell by cell id."""
    return group_by(specs, lambda spec: spec.cell_id)


def objective_group(spec: TrialSpec) -> Group:
    """The trials that a score may be compared with."""
    return spec.task, score_name(spec.task, spec.score), spec.data.name, spec.train_size


def cell_columns(spec: TrialSpec) -> dict[str, object]:
    """The columns of a frame of trials that every replicate of a cell shares, and that the analyses group by."""
    task, metric, corpus, size = objective_group(spec)
    return {
        "cell": spec.cell_id,
        "baseline": spec.baseline_id,
        "group": f"{task} / {metric} / {corpus} / {size}",
        "task": task,
        "metric": metric,
        "corpus": corpus,
        "model": spec.model.name,
        "freeze": spec.freeze.label,
        "freeze_spec": spec.freeze,
        "strategy": spec.freeze.strategy,
        "depth": spec.freeze.depth,
        "n_layers": spec.model.n_layers,
        "embeddings": spec.freeze.embeddings,
        "train_size": size,
        "folds": spec.data.folds or 0,
        "examples": sum(spec.data.sizes[:2]) if spec.data.sizes else 0,
    }


CELL_COLUMNS = (
    "cell", "baseline", "group", "task", "metric", "corpus", "model", "freeze", "freeze_spec", "strategy", "depth",
    "n_layers", "embeddings", "train_size", "folds", "examples",
)  # fmt: skip
"""The columns of `cell_columns`."""


def varying_settings(specs: Iterable[TrialSpec]) -> list[str]:
    """The dotted settings, other than those every table shows, in which the cells of a sweep differ."""
    all_settings = [_settings(spec) for spec in specs]
    keys = dict.fromkeys(key for settings in all_settings for key in settings)
    return [key for key in keys if len({repr(settings[key]) for settings in all_settings}) > 1]


def cell_label(spec: TrialSpec, varying: Sequence[str]) -> str:
    """What tells a cell from the others of its sweep: its freeze, with the strip, and the settings that differ."""
    values = ((key.removesuffix(".name").rpartition(".")[2], setting(spec, key)) for key in varying)
    settings = (
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in values
        if value is not None
    )
    return " ".join([strip_and_word(spec.freeze, spec.model.n_layers), *settings])


def setup_labels(specs: Mapping[str, TrialSpec]) -> dict[str, str]:
    """For each cell the settings that vary, except corpus, model, freeze and train size; "" if none does."""
    keys = [key for key in varying_settings(specs.values()) if key != "model.name"]
    return {
        cell: ", ".join(f"{key.rpartition('.')[2]}={_text(setting(spec, key))}" for key in keys)
        for cell, spec in specs.items()
    }


def _text(value: object) -> str:
    if value is None:
        return "default"
    return f"{value:g}" if isinstance(value, float) else str(value)


def setting(spec: TrialSpec, key: str) -> Any:
    """The value of a dotted setting; adapters are one setting, by their label."""
    return _settings(spec)[key]


def _settings(spec: TrialSpec) -> dict[str, Any]:
    shown = {"data", "model", "freeze", "train_size", "task", "score", "lora"} | SEEDS
    lora = spec.lora.label if spec.lora else None
    return {"model.name": spec.model.name, **flatten(spec.model_dump(mode="json", exclude=shown)), "lora": lora}


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted names."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat

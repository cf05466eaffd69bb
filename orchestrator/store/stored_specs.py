"""Specs as they are stored: the columns of a trial's row that follow from its spec, and specs read from plans and rows.

Readers group rows by `cell_id`, pair them by `seed_key`, compare them with `baseline_id` and name them by `freeze`, so
a spec is parsed once a setting and not once a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from orchestrator.config.yaml_document import faults
from orchestrator.store.sweep_plans import SweepPlan
from trials.errors import StoreError
from trials.spec import TrialSpec

LISTING = "permafrost status --trials"  # the command that lists the trials of a store


def spec_columns(spec: TrialSpec) -> dict[str, Any]:
    """The columns of a row of `schema.TRIALS` that follow from the trial's spec."""
    return {
        "trial_id": spec.trial_id,
        "task": spec.task,
        "corpus": spec.data.name,
        "model": spec.model.name,
        "freeze_strategy": spec.freeze.strategy,
        "freeze_depth": spec.freeze.depth,
        "freeze_layers": list(spec.freeze.layers),
        "freeze_embeddings": spec.freeze.embeddings,
        "train_size": spec.train_size,
        "seed": spec.seed,
        "spec": spec.model_dump_json(),
        "cell_id": spec.cell_id,
        "baseline_id": spec.baseline_id,
        "seed_key": spec.seeds.key,
        "freeze": spec.freeze.label,
    }


def stored_spec(content: str | Mapping[str, Any] | None, trial_id: str) -> TrialSpec:
    """The spec of a trial, from a plan or from the `spec` column of its row. Raises StoreError."""
    try:
        return _parsed(content)
    except ValidationError as error:
        first = faults(error, TrialSpec)[0]
        place = ".".join(map(str, ("spec", *first.path)))
        raise StoreError(
            f"trial {trial_id!r} of the store: {place}: {first.text.removesuffix('.')}. "
            "Its row or plan is broken, or of a newer version."
        ) from error


def planned_specs(plan: SweepPlan) -> list[TrialSpec]:
    """The trials of a plan, in its order. Raises StoreError: One cannot be read."""
    return [stored_spec(spec, trial_id) for trial_id, spec in plan.trials]


def checked_spec(content: object, trial_id: str) -> TrialSpec | str:
    """The spec, or what is wrong with it: not valid, or that of another trial."""
    try:
        spec = _parsed(content)
    except ValidationError as error:
        first = faults(error, TrialSpec)[0]
        return f"its spec cannot be read by this version ({'.'.join(map(str, first.path))}: {first.text})"
    except ValueError as error:
        return f"its spec cannot be read by this version ({str(error).partition(chr(10))[0]})"
    return spec if spec.trial_id == trial_id else f"its spec belongs to trial {spec.trial_id}"


def _parsed(content: object) -> TrialSpec:
    return TrialSpec.model_validate_json(content) if isinstance(content, str) else TrialSpec.model_validate(content)

"""The plans of sweeps in a store, one file per launch that declared something new, and the specs of trials.

    <store>/sweeps/<sweep>/plan-<time>-<digest>.json           all trials known at that time

The trials of a sweep are those of its newest plan. The driver of an adaptive search replaces it by one with a cell
more, before that runs. The times in the names and in the plans never go back, even if the machine's clock is set back.
"""

from __future__ import annotations

import json
import math
import time
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.config.yaml_document import faults
from orchestrator.storage.storage import BrokenError, Storage
from orchestrator.store.parts import report, unusable_warning
from orchestrator.store.schema import WRONG_DIGEST, is_intact, read_intact, stamp_of, stamped_name
from trials.errors import StoreError, quote
from trials.escaping import compose
from trials.spec import N_SEEDS, TrialSpec

MOST_NAME_BYTES = 180  # longest name of a sweep; file systems allow 255 bytes, and Ray's job logs add 50


def _file_name(name: str) -> str:
    """The name in the form in which it is stored and looked up."""
    name = compose(name)
    if (n_bytes := len(name.encode())) > MOST_NAME_BYTES:
        raise ValueError(f"has {n_bytes} bytes in UTF-8; a file's name with it has room for {MOST_NAME_BYTES}")
    if hidden := [character for character in name if not character.isprintable()]:
        raise ValueError(f"has the invisible character U+{ord(hidden[0]):04X}; leave it out")
    # Letters with their marks, which a regular expression of Python takes for none.
    if name[:1] in ("", *"_.-") or not all(c in "_.-" or unicodedata.category(c)[0] in "LMN" for c in name):
        raise ValueError("must be letters, digits, `_`, `.` and `-` alone, the first of them a letter or digit")
    return name


SweepName: TypeAlias = Annotated[str, Field(max_length=80), AfterValidator(_file_name)]
"""Letters of any script, digits, `_`, `.`, `-`; it begins with a letter or digit, so it leads to no other folder."""

_NAME = TypeAdapter[str](SweepName)


def is_sweep_name(name: object) -> bool:
    """Whether a sweep may have this name. It may come from a store that another person wrote."""
    try:
        _NAME.validate_python(name, strict=True)
    except ValidationError:
        return False
    return True


SWEEPS = "sweeps"
BESIDE = ("train-", "baseline-", "rates-")  # before the name of a question, or of its corpus


class Suggestion(NamedTuple):
    """A cell as a sampler identifies it: the number of the suggestion, and the value of each parameter."""

    number: int
    parameters: dict[str, int | float]


@dataclass(frozen=True)
class SweepPlan:
    """The trials that one launch of a sweep declared.

    Attributes:
        time: Unix time of the launch.
        source: The YAML file it came from.
        trials: (trial_id, spec as JSON values) in the sweep's order.
        suggestions: What the sampler of an adaptive search suggested, in order; its trials are among them.
        goal: What the sweep asks, as of `decision_plan.DecisionPlan.as_json`; empty for the defaults.
    """

    name: str
    time: float
    source: str
    trials: tuple[tuple[str, dict[str, Any]], ...]
    suggestions: tuple[Suggestion, ...] = ()
    goal: dict[str, Any] = field(default_factory=dict)

    @property
    def decision_plan(self) -> DecisionPlan:
        """The decision plan of the sweep's answers."""
        return DecisionPlan.of_json(self.goal)

    @cached_property
    def specs(self) -> tuple[TrialSpec, ...]:
        """Its trials in its order, checked once. Raises StoreError: One cannot be read."""
        checked: dict[str, TrialSpec] = {}  # of each setting; a replicate needs nothing else checked but its seed
        found = []
        for trial_id, content in self.trials:
            setting, seed = repr({**content, "seed": None}), content.get("seed")
            if setting in checked and type(seed) is int and 0 <= seed < N_SEEDS:
                found.append(checked[setting].with_seed(seed))
            else:
                found.append(stored_spec(content, trial_id))
                checked[setting] = found[-1]
        return tuple(found)


def is_plan(name: str) -> bool:
    """Whether a file of this name is a plan."""
    return name.startswith("plan-") and name.endswith(".json")


def write_plan(folder: Storage, plan: SweepPlan, *, after_ns: int = 0) -> None:
    """Write a plan, newer than all in its folder and than `after_ns`. Raises StoreError."""
    after_ns = max(after_ns, newest_stamp(folder))
    stamp_ns = time.time_ns()
    if stamp_ns <= after_ns:  # the clock was set back
        stamp_ns = after_ns + 1_000  # as float seconds, as in `SweepPlan.time`, a nanosecond may be lost
        plan = replace(plan, time=stamp_ns / 1e9)
    values = {"name": plan.name, "time": plan.time, "source": plan.source, "trials": plan.trials}
    later = {"suggestions": [one._asdict() for one in plan.suggestions], "goal": plan.goal}
    values |= {name: value for name, value in later.items() if value}
    content = (json.dumps(values, indent=1) + "\n").encode()
    folder.write(stamped_name("plan", stamp_ns, content, "json"), content)


def newest_stamp(folder: Storage) -> int:
    """The time of the newest plan in a sweep's folder, in nanoseconds; 0 if there is none."""
    return max((stamp_of(name) for name in folder.files() if name.startswith("plan-")), default=0)


def newest_plan(folder: Storage, names: Collection[str] | None = None) -> SweepPlan | None:
    """The newest plan in a sweep's folder that is not broken; broken ones are reported.

    Args:
        folder: Of the sweep.
        names: Its files, where they were listed just now.

    Raises:
        StoreError: plans keep vanishing.
    """
    for _ in range(_READS):
        try:
            for name in sorted(filter(is_plan, folder.files() if names is None else names), reverse=True):
                try:
                    return read_plan(folder, name)
                except BrokenError as error:
                    report(unusable_warning(f"{folder}/{name}", error.wrong))
        except FileNotFoundError:  # the driver of a search replaced it meanwhile
            names = None
        else:
            return None
    raise StoreError(f"{folder}: plans vanish while they are read. Try again.")


_READS = 10  # tries; a search replaces its plan at most once a suggestion, so ten in a row are another fault


def read_plan(folder: Storage, name: str) -> SweepPlan:
    """Read a plan. Raises BrokenError and FileNotFoundError."""
    try:
        content = read_intact(folder, name)
        if not is_intact(name, content):
            raise ValueError(WRONG_DIGEST)
        plan = _plan_of(json.loads(content.to_pybytes().decode("utf-8")))
        if not is_sweep_name(plan.name) or plan.name != compose(folder.name):
            raise ValueError(f"{quote(plan.name)} is not the sweep of its folder")
        return plan
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        wrong, way_out = f"not a readable plan ({error})", "Delete it: the next launch writes the plan again"
        raise BrokenError(f"{folder}/{name}", wrong, way_out) from error


def _plan_of(content: Any) -> SweepPlan:
    trials = tuple((str(trial_id), dict(spec)) for trial_id, spec in content["trials"])
    suggestions = tuple(map(_suggestion, content.get("suggestions", ())))
    goal = dict(content.get("goal", {}))
    DecisionPlan.of_json(goal)
    return SweepPlan(str(content["name"]), float(content["time"]), str(content["source"]), trials, suggestions, goal)


def _suggestion(entry: Any) -> Suggestion:
    parameters = {str(name): _number(value) for name, value in entry["parameters"].items()}
    return Suggestion(int(_number(entry["number"])), parameters)


def _number(value: object) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError(f"{value!r} is not a number")
    return value


def is_beside(name: str, sweeps: Collection[str]) -> bool:
    """Whether a sweep only serves a question of the same store: its trained model, baseline, rates or adapters."""
    words = (name.removeprefix(prefix) for prefix in BESIDE if name.startswith(prefix))
    return any(word in sweeps or f"choose-{word}" in sweeps for word in words)


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
        return _parse(content)
    except ValidationError as error:
        first = faults(error, TrialSpec)[0]
        place = ".".join(map(str, ("spec", *first.path)))
        raise StoreError(
            f"trial {trial_id!r} of the store: {place}: {first.text.removesuffix('.')}. "
            "Its row or plan is broken, or of a newer version."
        ) from error


def checked_spec(content: object, trial_id: str) -> TrialSpec | str:
    """The spec, or what is wrong with it: it is not valid, or belongs to another trial."""
    try:
        spec = _parse(content)
    except ValidationError as error:
        first = faults(error, TrialSpec)[0]
        return f"its spec cannot be read by this version ({'.'.join(map(str, first.path))}: {first.text})"
    except ValueError as error:
        return f"its spec cannot be read by this version ({str(error).partition(chr(10))[0]})"
    return spec if spec.trial_id == trial_id else f"its spec belongs to trial {spec.trial_id}"


def _parse(content: object) -> TrialSpec:
    return TrialSpec.model_validate_json(content) if isinstance(content, str) else TrialSpec.model_validate(content)

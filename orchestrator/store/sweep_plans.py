"""The plans of sweeps in a store: one file per launch that declared something new, and cells that a search suggested.

    <store>/sweeps/<sweep>/plan-<time>-<digest>.json           all trials known at that time
    <store>/sweeps/<sweep>/suggested-<time>-<digest>.json      more cells, with the sampler's parameters (`decisions`)

The trials of a sweep are those of its newest plan and of the cells suggested after it. The times in their names and
in the plans never go back, even if the machine's clock is set back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.storage.storage import BrokenError, Storage
from orchestrator.store.schema import (
    WRONG_DIGEST,
    is_intact,
    read_intact,
    stamp_of,
    stamped,
)

SWEEPS = "sweeps"
BESIDE = ("train-", "baseline-", "rates-", "lora-")  # before the name of a question, or of its corpus


@dataclass(frozen=True)
class SweepPlan:
    """The trials that one launch of a sweep declared.

    Attributes:
        time: Unix time of the launch.
        source: The YAML file it came from.
        trials: (trial_id, spec as JSON values) in the sweep's order.
        decisions: Number of the first decision of its search that it does not include.
        goal: What the sweep asks, as of `decision_plan.DecisionPlan.as_json`; empty for the defaults.
    """

    name: str
    time: float
    source: str
    trials: tuple[tuple[str, dict[str, Any]], ...]
    decisions: int = 0
    goal: dict[str, Any] = field(default_factory=dict)

    @property
    def asks(self) -> DecisionPlan:
        """What its answers go by."""
        return DecisionPlan.of_json(self.goal)


def is_plan(name: str) -> bool:
    """Whether a file of this name is a plan."""
    return name.startswith("plan-") and name.endswith(".json")


def write_plan(folder: Storage, plan: SweepPlan, *, after_ns: int = 0) -> None:
    """Write a plan, newer than all in its folder and than `after_ns`. Raises StoreError."""
    stamp_ns, plan = stamped_plan(folder, plan, after_ns)
    content = (json.dumps(as_json(plan), indent=1) + "\n").encode()
    folder.write(stamped("plan", stamp_ns, content, "json"), content)


def as_json(plan: SweepPlan) -> dict[str, Any]:
    """A plan as its file has it."""
    content = {"name": plan.name, "time": plan.time, "source": plan.source, "trials": plan.trials}
    later = {"decisions": plan.decisions, "goal": plan.goal}
    return content | {name: value for name, value in later.items() if value}


def stamped_plan(folder: Storage, plan: SweepPlan, after_ns: int = 0) -> tuple[int, SweepPlan]:
    """A time newer than all in a folder and than `after_ns`, in nanoseconds, and the plan, of that time if need be."""
    after_ns = max(after_ns, newest_stamp(folder))
    stamp_ns = time.time_ns()
    if stamp_ns <= after_ns:  # the clock was set back
        stamp_ns = after_ns + 1_000  # as float seconds, as in `SweepPlan.time`, a nanosecond may be lost
        plan = replace(plan, time=stamp_ns / 1e9)
    return stamp_ns, plan


def newest_stamp(folder: Storage) -> int:
    """The time of the newest plan or suggested cell in a sweep's folder, in nanoseconds; 0 if there is none."""
    kinds = ("plan-", "suggested-")
    return max((stamp_of(name) for name in folder.files() if name.startswith(kinds)), default=0)


def read_plan(folder: Storage, name: str) -> SweepPlan:
    """Read a plan. Raises BrokenError."""
    path = f"{folder}/{name}"
    try:
        return decoded_plan(path, read_intact(folder, name).to_pybytes())
    except OSError as error:
        raise broken_plan(path, error) from error


def decoded_plan(path: str, content: bytes) -> SweepPlan:
    """Decode a plan from the bytes of its file. Raises BrokenError."""
    try:
        return plan_of(intact_json(path, content))
    except DECODING_ERRORS as error:
        raise broken_plan(path, error) from error


def intact_json(path: str, content: bytes) -> Any:
    """What the bytes of a file say. Raises ValueError."""
    if not is_intact(path, content):
        raise ValueError(WRONG_DIGEST)
    return json.loads(content.decode("utf-8"))


DECODING_ERRORS = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def plan_of(content: Any) -> SweepPlan:
    """A plan from JSON values. Raises one of `DECODING_ERRORS`."""
    trials = tuple((str(trial_id), dict(spec)) for trial_id, spec in content["trials"])
    decisions = int(content.get("decisions", 0))
    goal = dict(content.get("goal", {}))
    DecisionPlan.of_json(goal)
    return SweepPlan(str(content["name"]), float(content["time"]), str(content["source"]), trials, decisions, goal)


def broken_plan(path: str, error: Exception) -> BrokenError:
    """The error of a plan or suggested cells that cannot be read."""
    return BrokenError(
        path, f"not a readable plan ({error})", "Run `permafrost store repair`; the next launch writes the plan again"
    )


def is_beside(name: str, sweeps: Collection[str]) -> bool:
    """Whether a sweep was made beside a question of the same store: its model, its baseline, rates, adapters."""
    words = (name.removeprefix(prefix) for prefix in BESIDE if name.startswith(prefix))
    return any(word in sweeps or f"choose-{word}" in sweeps for word in words)

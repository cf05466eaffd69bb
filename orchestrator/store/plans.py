"""The plans of sweeps in a store: one file per launch that declared something new, one per suggested cell.

    <store>/sweeps/<sweep>/plan-<time>-<digest>.json           all trials known at that time
    <store>/sweeps/<sweep>/suggested-<time>-<digest>.json      those of one more cell, with the sampler's parameters

The trials of a sweep are those of its newest plan and of the cells suggested after it. The times in their names and in
the plans never go back, even if the machine's clock is set back.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.storage.errors import BrokenError
from orchestrator.storage.storage import Storage
from orchestrator.store.names import WRONG_DIGEST, is_intact, stamp_of, stamped

SWEEPS = "sweeps"


@dataclass(frozen=True)
class Suggested:
    """A cell as a sampler identifies it: the number of the suggestion, and the value of each parameter."""

    number: int
    parameters: dict[str, int | float]


@dataclass(frozen=True)
class SweepPlan:
    """The trials that one launch of a sweep declared.

    Attributes:
        name: The sweep.
        time: Unix time of the launch.
        source: The YAML file it came from.
        trials: (trial_id, spec as JSON values) in the sweep's order.
    """

    name: str
    time: float
    source: str
    trials: tuple[tuple[str, dict[str, Any]], ...]


def is_plan(name: str) -> bool:
    """Whether a file of this name is a plan."""
    return name.startswith("plan-") and name.endswith(".json")


def is_suggestion(name: str) -> bool:
    """Whether a file of this name is a suggested cell."""
    return name.startswith("suggested-") and name.endswith(".json")


def is_forecast(name: str) -> bool:
    """Whether a file of this name is the forecast of a launch (`orchestrator.forecast.archive`)."""
    return name.startswith("forecast-") and name.endswith(".json")


def write_plan(folder: Storage, plan: SweepPlan, suggested: Suggested | None = None, *, after_ns: int = 0) -> None:
    """Write a plan, or a suggested cell, newer than all in its folder and than `after_ns`. Raises StoreError."""
    after_ns = max(after_ns, newest_stamp(folder))
    stamp_ns = time.time_ns()
    if stamp_ns <= after_ns:  # the clock was set back
        stamp_ns = after_ns + 1_000  # as float seconds, as in `SweepPlan.time`, a nanosecond may be lost
        plan = replace(plan, time=stamp_ns / 1e9)
    found: dict[str, Any] = {"name": plan.name, "time": plan.time, "source": plan.source, "trials": plan.trials}
    if suggested is not None:
        found |= {"number": suggested.number, "parameters": suggested.parameters}
    content = (json.dumps(found, indent=1) + "\n").encode()
    folder.write(stamped("plan" if suggested is None else "suggested", stamp_ns, content, "json"), content)


def newest_stamp(folder: Storage) -> int:
    """The time of the newest plan or suggested cell in a sweep's folder, in nanoseconds; 0 if there is none."""
    return max((stamp_of(name) for name in folder.files() if is_plan(name) or is_suggestion(name)), default=0)


def newest_plan(folder: Storage) -> SweepPlan | None:
    """The newest plan in a sweep's folder, with the cells suggested since then. Raises BrokenError."""
    names = sorted(folder.files())
    newest = max(filter(is_plan, names), default=None)
    if newest is None:
        return None
    plan, since = read_plan(folder, newest), stamp_of(newest)
    trials = dict(plan.trials)
    for name in filter(is_suggestion, names):
        if stamp_of(name) > since:
            trials |= read_plan(folder, name).trials
    return plan if len(trials) == len(plan.trials) else replace(plan, trials=tuple(trials.items()))


def suggestions(folder: Storage) -> list[Suggested]:
    """All suggested cells, in their order. Raises BrokenError."""
    found = []
    for name in sorted(filter(is_suggestion, folder.files())):
        path, content = f"{folder}/{name}", folder.read(name)
        decoded_plan(path, content)
        try:
            values = json.loads(content.decode("utf-8"))
            parameters = {str(key): _number(value) for key, value in values["parameters"].items()}
            found.append(Suggested(int(_number(values["number"])), parameters))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _broken_plan(path, error) from error
    return found


def _number(value: object) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value in (math.inf, -math.inf):
        raise TypeError(f"{value!r} is not a number")
    return value


def read_plan(folder: Storage, name: str) -> SweepPlan:
    """Read a plan. Raises BrokenError."""
    path = f"{folder}/{name}"
    try:
        with folder.open(name) as file:
            return decoded_plan(path, file.read())
    except OSError as error:
        raise _broken_plan(path, error) from error


def decoded_plan(path: str, content: bytes) -> SweepPlan:
    """Decode a plan from the bytes of its file.

    Raises:
        BrokenError: they are corrupted, or not a plan.
    """
    try:
        if not is_intact(path, content):
            raise ValueError(WRONG_DIGEST)
        found = json.loads(content.decode("utf-8"))
        trials = tuple((str(trial_id), dict(spec)) for trial_id, spec in found["trials"])
        return SweepPlan(str(found["name"]), float(found["time"]), str(found["source"]), trials)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise _broken_plan(path, error) from error


def _broken_plan(path: str, error: Exception) -> BrokenError:
    return BrokenError(
        path, f"not a readable plan ({error})", "Run `permafrost store repair`; the next launch writes the plan again"
    )

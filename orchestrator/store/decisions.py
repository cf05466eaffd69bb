"""What a search decided, in one sequence that all of its drivers share, in a sweep's folder.

    decided-<number>.json                one decision, created by the driver that made it only if there was none
    suggested-<time>-<digest>.json       many decisions

Whoever creates the object of the next number has decided; all others follow (`DecisionLog`). So that a search is opened
with few requests, each driver also writes its decisions into larger objects: a new one takes in the driver's last ones
if they are not much larger, and then replaces them, so of 1,000 decisions there are at most six. Compaction joins those
of all drivers. A driver that is killed between writing and deleting leaves decisions in two objects; they count once.

The objects of single decisions stay as long as any driver may not have followed them; the last one to leave deletes
them (`join_decisions`, alone). Versions before them wrote suggestions without a number, the first ones an object each.
"""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from orchestrator.storage.storage import Storage
from orchestrator.store.schema import read_intact, stamp_of, stamped
from orchestrator.store.sweep_plans import (
    DECODING_ERRORS,
    SweepPlan,
    as_json,
    broken_plan,
    intact_json,
    is_plan,
    plan_of,
    read_plan,
)
from trials.errors import StoreError

LARGEST_BYTES = 4 * 2**20  # of an object that takes in others
_RATIO = 3  # an object takes in those before it that have at most so many times as many decisions
_MOST_SINGLE = 3  # of a driver's decisions, those that are in no larger object yet
_READS = 10  # of a folder whose objects are replaced while they are read
_SINGLE = re.compile(r"decided-(\d{6,})\.json")


@dataclass(frozen=True)
class Suggested:
    """A cell as a sampler identifies it: the number of the suggestion, and the value of each parameter."""

    number: int
    parameters: dict[str, int | float]


@dataclass(frozen=True)
class Promoted:
    """A cell, by its id, that goes on beyond the time at which its trials pause."""

    cell_id: str
    beyond: float


@dataclass(frozen=True)
class Stopped:
    """A trial, by its id, that ends early."""

    trial_id: str


Choice = Suggested | Promoted | Stopped


@dataclass(frozen=True)
class Decision:
    """A decision as it was recorded.

    Attributes:
        number: Its place in the sequence; None for suggestions of versions before there was one.
        stamp_ns: When, by the clock of the driver that made it.
        plan: The trials of a suggested cell; without trials for any other choice.
    """

    number: int | None
    stamp_ns: int
    choice: Choice
    plan: SweepPlan

    @cached_property
    def text(self) -> str:
        """The decision as JSON; equal texts are one decision."""
        values: dict[str, Any] = {"time_ns": self.stamp_ns}
        if self.number is not None:
            values["decision"] = self.number
        match self.choice:
            case Suggested(number, parameters):
                values |= as_json(self.plan) | {"number": number, "parameters": parameters}
            case Promoted(cell_id, beyond):
                values |= {"promoted": cell_id, "beyond": beyond}
            case Stopped(trial_id):
                values |= {"stopped": trial_id}
        return json.dumps(values, sort_keys=True)


class DecisionLog:
    """The decisions of a search as one of its drivers follows and makes them, one after the other."""

    def __init__(self, folder: Storage, *, before_write: Callable[[], None] = lambda: None) -> None:
        """Read what was decided. `before_write` raises if other drivers counted this one as ended.

        Raises:
            BrokenError: an object cannot be read.
            StoreError: the storage cannot be read.
        """
        self._folder, self._before_write, self._token = folder, before_write, uuid.uuid4().hex[:16]
        decisions = recorded(folder)
        self._known = deque(decision.choice for decision in decisions)
        self._next = next_number(decisions)
        self._is_behind = False
        self._single: list[Decision] = []
        self._joined: list[tuple[str, list[Decision]]] = []

    def following(self, *, look: bool = False) -> Choice | None:
        """The next decision to follow; None if this driver knows of none, and with `look` if there is none.

        Raises:
            BrokenError: it cannot be read.
            StoreError: the storage cannot be read.
        """
        if self._known:
            return self._known.popleft()
        if not (look or self._is_behind):
            return None
        decision = _read_single(self._folder, self._next)
        self._is_behind = decision is not None
        if decision is None:
            return None
        self._next += 1
        return decision.choice

    def make(self, choice: Choice, plan: SweepPlan) -> Choice:
        """Decide, unless another driver has made a decision that this one has not followed.

        Args:
            choice: The decision.
            plan: The trials of a suggested cell, else without trials.

        Returns:
            The next decision: this choice, or that of another driver, which has to be followed first.

        Raises:
            StoreError: the storage cannot be written.
        """
        assert not self._known, "a decision is followed before one is made"
        self._before_write()
        decision = Decision(self._next, time.time_ns(), choice, plan)
        if not self._folder.create(_single_name(self._next), _content([decision], driver=self._token)):
            taken = self.following(look=True)
            if taken is None:
                raise StoreError(
                    f"{self._folder}: decision {self._next} of the search vanished. Run the command again."
                )
            return taken
        self._next += 1
        self._single.append(decision)
        if len(self._single) > _MOST_SINGLE:
            self._join()
        return choice

    def _join(self) -> None:
        joined, kept = list(self._single), list(self._joined)
        while kept and _fits(kept[-1][1], joined):
            joined = [*kept.pop()[1], *joined]
        name = _write(self._folder, joined)
        replaced, self._joined = self._joined[len(kept) :], [*kept, (name, joined)]
        self._single = []
        for old, _ in replaced:
            if old != name:
                self._folder.delete(old)


def recorded(folder: Storage, names: Iterable[str] | None = None) -> list[Decision]:
    """All decisions in a sweep's folder, in their order.

    Args:
        folder: Of the sweep.
        names: Those of its objects, if they are known.

    Raises:
        BrokenError: an object cannot be read.
        StoreError: the storage cannot be read.
    """

    def read(name: str) -> list[Decision]:
        return decoded_decisions(f"{folder}/{name}", read_intact(folder, name).to_pybytes())

    for left in reversed(range(_READS)):
        wanted = sorted(filter(is_decision, folder.files() if names is None else names))
        try:
            decisions = _read_all(folder.each, read, wanted)
        except FileNotFoundError as error:  # it was replaced meanwhile
            names = None
            if not left:
                raise broken_plan(f"{folder}/{error.filename or ''}", error) from error
        except OSError as error:
            raise broken_plan(str(folder), error) from error
        else:
            return _in_order(decisions)
    raise AssertionError


def next_number(decisions: Iterable[Decision]) -> int:
    """The number of the decision that follows."""
    return 1 + max((decision.number for decision in decisions if decision.number is not None), default=-1)


def suggested(decisions: Iterable[Decision]) -> list[Suggested]:
    """The suggestions among decisions."""
    return [decision.choice for decision in decisions if isinstance(decision.choice, Suggested)]


def _read_all(for_each: Callable[..., Any], read: Callable[[str], list[Decision]], names: list[str]) -> list[Decision]:
    """Of single decisions only those that are in no larger object."""
    decisions = [
        decision
        for some in for_each(read, [name for name in names if not _SINGLE.fullmatch(name)])
        for decision in some
    ]
    joined = {decision.number for decision in decisions}
    single = [name for name in names if (match := _SINGLE.fullmatch(name)) and int(match[1]) not in joined]
    return [*decisions, *(decision for some in for_each(read, single) for decision in some)]


def newest_plan(folder: Storage, names: Collection[str] | None = None) -> SweepPlan | None:
    """The newest plan in a sweep's folder, with the cells suggested since then. Raises BrokenError.

    Args:
        folder: Of the sweep.
        names: Its files, where they were listed just now.
    """
    names = folder.files() if names is None else names
    newest = max(filter(is_plan, names), default=None)
    if newest is None:
        return None
    plan, since = read_plan(folder, newest), stamp_of(newest)
    trials = dict(plan.trials)
    for decision in recorded(folder, names):
        if decision.stamp_ns > since or (decision.number is not None and decision.number >= plan.decisions):
            trials |= decision.plan.trials
    return plan if len(trials) == len(plan.trials) else replace(plan, trials=tuple(trials.items()))


def join_decisions(folder: Storage, *, alone: bool = False) -> None:
    """Write the decisions of a sweep in as few objects as possible, and delete the others.

    At the same time drivers may decide, and others may join: what is deleted is in what was written.

    Args:
        folder: Of the sweep.
        alone: Whether no driver runs it, so that the objects of single decisions are not needed any more.

    Raises:
        BrokenError: an object cannot be read.
        StoreError: the storage cannot be read or written.
    """
    names = {name for name in folder.files() if is_decision(name) and (alone or not _SINGLE.fullmatch(name))}
    if len(names) < 2 and not any(map(_SINGLE.fullmatch, names)):
        return
    groups = dict[int, list[Decision]]()
    n_bytes = 0
    for decision in _in_order(recorded(folder, names)):
        n_bytes += len(decision.text)
        groups.setdefault(n_bytes // LARGEST_BYTES, []).append(decision)
    for name in names - {_write(folder, group) for group in groups.values()}:
        folder.delete(name)


def is_decision(name: str) -> bool:
    """Whether a file of this name holds decisions."""
    return (name.startswith("suggested-") and name.endswith(".json")) or bool(_SINGLE.fullmatch(name))


def decoded_decisions(path: str, content: bytes) -> list[Decision]:
    """Decode the decisions of an object. Raises BrokenError."""
    try:
        decoded = intact_json(path, content)
        if "suggestions" in decoded:
            entries = [*decoded["suggestions"], *decoded.get("decisions", ())]
            return [_decision(entry, int(entry["time_ns"])) for entry in entries]
        return [_decision(decoded, stamp_of(path.rpartition("/")[2]))]
    except DECODING_ERRORS as error:
        raise broken_plan(path, error) from error


def _decision(entry: Any, stamp_ns: int) -> Decision:
    number = int(_number(entry["decision"])) if "decision" in entry else None
    if "promoted" in entry:
        return Decision(number, stamp_ns, Promoted(str(entry["promoted"]), float(_number(entry["beyond"]))), NO_TRIALS)
    if "stopped" in entry:
        return Decision(number, stamp_ns, Stopped(str(entry["stopped"])), NO_TRIALS)
    parameters = {str(key): _number(value) for key, value in entry["parameters"].items()}
    return Decision(number, stamp_ns, Suggested(int(_number(entry["number"])), parameters), plan_of(entry))


NO_TRIALS = SweepPlan("", 0.0, "", ())


def _number(value: object) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value in (math.inf, -math.inf):
        raise TypeError(f"{value!r} is not a number")
    return value


def _in_order(decisions: Iterable[Decision]) -> list[Decision]:
    """Each decision once: those without a number by time, then by number."""

    def place(decision: Decision) -> tuple[int, int, str]:
        return -1 if decision.number is None else decision.number, decision.stamp_ns, decision.text

    return sorted({decision.text: decision for decision in decisions}.values(), key=place)


def _fits(earlier: list[Decision], later: list[Decision]) -> bool:
    """Whether an object with the later decisions takes in one with the earlier."""
    n_bytes = sum(len(decision.text) for decision in (*earlier, *later))
    return len(earlier) <= _RATIO * len(later) and n_bytes <= LARGEST_BYTES


def _single_name(number: int) -> str:
    return f"decided-{number:06d}.json"


def _read_single(folder: Storage, number: int) -> Decision | None:
    name = _single_name(number)
    try:
        (decision,) = decoded_decisions(f"{folder}/{name}", folder.read(name))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise broken_plan(f"{folder}/{name}", error) from error
    return decision


def _content(decisions: Iterable[Decision], *, driver: str = "") -> bytes:
    """Suggestions apart from other decisions, which versions before there were any do not expect among them."""
    cells = ",\n".join(decision.text for decision in decisions if isinstance(decision.choice, Suggested))
    others = ",\n".join(decision.text for decision in decisions if not isinstance(decision.choice, Suggested))
    parts = ([f'"driver": "{driver}"'] if driver else []) + [f'"suggestions": [\n{cells}\n]']
    parts += [f'"decisions": [\n{others}\n]'] if others else []
    return ("{" + ", ".join(parts) + "}\n").encode()


def _write(folder: Storage, decisions: list[Decision]) -> str:
    content = _content(decisions)
    name = stamped("suggested", max(decision.stamp_ns for decision in decisions), content, "json")
    if not folder.exists(name):
        folder.write(name, content)
    return name

"""Cells that a search suggested, in few objects of a sweep's folder: `suggested-<time>-<digest>.json`.

Each driver of a search writes its own. A new object takes in the driver's last ones if they are not much larger, and
then replaces them: of 1,000 suggestions there are at most six objects, and each one is written a few times. Compaction
joins those of all drivers. A driver that is killed between writing and deleting leaves suggestions in two objects; they
count once. An object of an older version holds a single suggestion.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from orchestrator.storage.storage import Storage
from orchestrator.store.names import stamp_of, stamped
from orchestrator.store.plans import (
    DECODING_ERRORS,
    SweepPlan,
    as_json,
    broken_plan,
    intact_json,
    is_plan,
    is_suggestion,
    plan_of,
    read_plan,
    stamped_plan,
)

LARGEST_BYTES = 4 * 2**20  # of an object that takes in others
_RATIO = 3  # an object takes in those before it that have at most so many times as many suggestions
_READS = 10  # of a folder whose objects are replaced while they are read


@dataclass(frozen=True)
class Suggested:
    """A cell as a sampler identifies it: the number of the suggestion, and the value of each parameter."""

    number: int
    parameters: dict[str, int | float]


@dataclass(frozen=True)
class Suggestion:
    """A suggested cell as it was recorded.

    Attributes:
        stamp_ns: When, as a time that never goes back in a sweep's folder.
        plan: Its trials.
        suggested: What the sampler knows of it.
    """

    stamp_ns: int
    plan: SweepPlan
    suggested: Suggested

    @cached_property
    def text(self) -> str:
        """The suggestion as JSON; equal texts are one suggestion."""
        values = {"number": self.suggested.number, "parameters": self.suggested.parameters, "time_ns": self.stamp_ns}
        return json.dumps(as_json(self.plan) | values, sort_keys=True)


class SuggestionLog:
    """The suggestions that one driver adds to a sweep."""

    def __init__(self, folder: Storage) -> None:
        self._folder = folder
        self._own: list[tuple[str, list[Suggestion]]] = []

    def add(self, plan: SweepPlan, suggested: Suggested) -> None:
        """Add a cell; `plan` contains its trials only. Raises StoreError."""
        stamp_ns, plan = stamped_plan(self._folder, plan)
        joined, kept = [Suggestion(stamp_ns, plan, suggested)], list(self._own)
        while kept and _fits(kept[-1][1], joined):
            joined = [*kept.pop()[1], *joined]
        name = _write(self._folder, joined)
        replaced, self._own = self._own[len(kept) :], [*kept, (name, joined)]
        for old, _ in replaced:
            self._folder.delete(old)


def recorded(folder: Storage, names: Iterable[str] | None = None) -> list[Suggestion]:
    """All suggestions in a sweep's folder, in their order.

    Args:
        folder: Of the sweep.
        names: Those of its objects, if they are known.

    Raises:
        BrokenError: an object cannot be read.
        StoreError: the storage cannot be read.
    """

    def read(name: str) -> list[Suggestion]:
        with folder.open(name) as file:
            return decoded_suggestions(f"{folder}/{name}", file.read())

    for left in reversed(range(_READS)):
        wanted = sorted(filter(is_suggestion, folder.files() if names is None else names))
        try:
            objects = folder.each(read, wanted)
        except FileNotFoundError as error:  # it was replaced meanwhile
            names = None
            if not left:
                raise broken_plan(f"{folder}/{error.filename or ''}", error) from error
        except OSError as error:
            raise broken_plan(str(folder), error) from error
        else:
            return _in_order(one for some in objects for one in some)
    raise AssertionError


def newest_plan(folder: Storage) -> SweepPlan | None:
    """The newest plan in a sweep's folder, with the cells suggested since then. Raises BrokenError."""
    names = list(folder.files())
    newest = max(filter(is_plan, names), default=None)
    if newest is None:
        return None
    plan, since = read_plan(folder, newest), stamp_of(newest)
    trials = dict(plan.trials)
    for one in recorded(folder, names):
        if one.stamp_ns > since:
            trials |= one.plan.trials
    return plan if len(trials) == len(plan.trials) else replace(plan, trials=tuple(trials.items()))


def join_suggestions(folder: Storage) -> None:
    """Write the suggestions of a sweep in as few objects as possible, and delete the others.

    At the same time drivers may add suggestions, and others may join them: what is deleted is in what was written.

    Raises:
        BrokenError: an object cannot be read.
        StoreError: the storage cannot be read or written.
    """
    names = {name for name in folder.files() if is_suggestion(name)}
    if len(names) < 2:
        return
    groups = dict[int, list[Suggestion]]()
    n_bytes = 0
    for one in recorded(folder, names):
        n_bytes += len(one.text)
        groups.setdefault(n_bytes // LARGEST_BYTES, []).append(one)
    for name in names - {_write(folder, group) for group in groups.values()}:
        folder.delete(name)


def decoded_suggestions(path: str, content: bytes) -> list[Suggestion]:
    """Decode the suggestions of an object. Raises BrokenError."""
    try:
        found = intact_json(path, content)
        if "suggestions" in found:
            return [_suggestion(one, int(one["time_ns"])) for one in found["suggestions"]]
        return [_suggestion(found, stamp_of(path.rpartition("/")[2]))]
    except DECODING_ERRORS as error:
        raise broken_plan(path, error) from error


def _suggestion(found: Any, stamp_ns: int) -> Suggestion:
    parameters = {str(key): _number(value) for key, value in found["parameters"].items()}
    return Suggestion(stamp_ns, plan_of(found), Suggested(int(_number(found["number"])), parameters))


def _number(value: object) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value in (math.inf, -math.inf):
        raise TypeError(f"{value!r} is not a number")
    return value


def _in_order(found: Iterable[Suggestion]) -> list[Suggestion]:
    """Each suggestion once, by time."""
    return sorted({one.text: one for one in found}.values(), key=lambda one: (one.stamp_ns, one.suggested.number))


def _fits(earlier: list[Suggestion], later: list[Suggestion]) -> bool:
    """Whether an object with the later suggestions takes in one with the earlier."""
    n_bytes = sum(len(one.text) for one in (*earlier, *later))
    return len(earlier) <= _RATIO * len(later) and n_bytes <= LARGEST_BYTES


def _write(folder: Storage, found: list[Suggestion]) -> str:
    content = ('{"suggestions": [\n' + ",\n".join(one.text for one in found) + "\n]}\n").encode()
    name = stamped("suggested", found[-1].stamp_ns, content, "json")
    if not folder.exists(name):
        folder.write(name, content)
    return name

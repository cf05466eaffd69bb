"""Points of a space. A walk takes a value at each axis, and these values decide which axes follow (conditional axes).

The caller passes a `Taker`, which chooses one value of one axis: at random, as Optuna suggests, the next of a grid, or
as stored. Axes bounded by the model's layers are taken last, when the model is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.config.yaml_document import KeyPath
from orchestrator.sweeps.axis import Axis, axis_in, inner_axes
from trials.errors import PermafrostError

Space = Mapping[str, Axis]
Taken = tuple[int | None, Any]  # index into a list or None, value
Taker = Callable[[str, Axis], Taken]  # chooses a value of a named axis
Settings = dict[str, Taken]  # key of the space -> chosen value
CASES = "cases"  # the key of the space whose choices are several settings at once


class LayersError(PermafrostError):
    """An axis has no value for the layers of the model; `name` is the axis's."""

    exit_code = 2

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


@dataclass(frozen=True)
class Point:
    """A cell before its files are resolved.

    Attributes:
        settings: Chosen value of each key of the space, with nested axes replaced by their values.
        parameters: Axis name to index into its choices, or to the number.
    """

    settings: Settings
    parameters: dict[str, int | float]

    def dotted(self) -> Iterator[tuple[str, Any]]:
        """The dotted settings, including those of a case."""
        for key, (_, value) in self.settings.items():
            yield from value.items() if key == CASES else [(key, value)]

    def place(self, path: tuple[int | str, ...]) -> KeyPath:
        """The key in the sweep's file that set a draft's path."""
        for key, (index, value) in self.settings.items():
            at = () if index is None else (index,)
            for inner in value if key == CASES else ():
                if path[: len(parts := tuple(inner.split(".")))] == parts:
                    return ("space", CASES, *at, inner, *path[len(parts) :])
            parts = tuple(key.split("."))
            if path[: len(parts)] == parts:
                return ("space", key, *at, *path[len(parts) :])
        return ("trial", *path)


@dataclass(frozen=True)
class _Later:
    """Placeholder for an axis that is taken when the model is known."""

    name: str
    axis: Axis


class _Walk:
    """The state of one walk."""

    def __init__(self, take: Taker) -> None:
        self._take = take
        self.parameters: dict[str, int | float] = {}

    def value(self, name: str, value: Any) -> Any:
        """A value with nested axes replaced by chosen values."""
        axis = axis_in(value)
        if axis is not None:
            return self.taken(name, axis)[1]
        if isinstance(value, Mapping):
            return {key: self.value(f"{name}.{key}", one) for key, one in value.items()}
        return [self.value(f"{name}.{i}", one) for i, one in enumerate(value)] if isinstance(value, list) else value

    def taken(self, name: str, axis: Axis) -> Taken:
        """The value chosen for an axis, or a `_Later`."""
        if axis.by_layers:
            return None, _Later(name, axis)
        index, value = self._take(name, axis)
        self.parameters[name] = value if index is None else index
        return index, value if index is None else self.value(f"{name}.{index}", value)

    def later(self, value: Any, n_layers: Callable[[], int]) -> Any:
        """A value with each `_Later` replaced; the axis name includes the layers, as they change its range."""
        if isinstance(value, _Later):
            n = n_layers()
            try:
                axis = value.axis.within(n)
            except ValueError as error:
                raise LayersError(value.name, f"{error}.") from error
            return self.taken(f"{value.name}@{n}", axis)[1]
        if isinstance(value, dict):
            return {key: self.later(one, n_layers) for key, one in value.items()}
        return [self.later(one, n_layers) for one in value] if isinstance(value, list) else value


def walk(space: Space, take: Taker, n_layers: Callable[[Point], int]) -> Point:
    """One point of the space.

    Args:
        take: Chooses at every axis.
        n_layers: Layers of the model of an incomplete point; called only if an axis needs them.

    Raises:
        LayersError: an axis has no value for that model.
    """
    walking = _Walk(take)
    settings: Settings = {key: walking.taken(key, axis) for key, axis in space.items()}
    known = Point({key: taken for key, taken in settings.items() if not _has_later(taken[1])}, {})

    def asked() -> int:
        return n_layers(known)

    complete = {key: (index, walking.later(value, asked)) for key, (index, value) in settings.items()}
    return Point(complete, walking.parameters)


def grid(space: Space, n_layers: Callable[[Point], int]) -> Iterator[Point]:
    """Every point of a finite space; axes bounded by the layers vary fastest, then the last axis."""
    digits: list[list[int]] = []  # of the previous walk: index of the value, number of values
    at = 0

    def take(name: str, axis: Axis) -> Taken:
        nonlocal at
        if at == len(digits):
            digits.append([0, axis.n_values])
        index, at = digits[at][0], at + 1
        return (index if axis.choice is not None else None), axis.value(index)

    while True:
        at = 0
        yield walk(space, take, n_layers)
        while digits and digits[-1][0] == digits[-1][1] - 1:
            digits.pop()
        if not digits:
            return
        digits[-1][0] += 1


def again(
    space: Space,
    parameters: Mapping[str, int | float],
    n_layers: Callable[[Point], int],
    met: Callable[[str, Axis], None],
) -> Point | None:
    """The point with these parameters; None if the space no longer has it. `met` is called with each axis."""

    def take(name: str, axis: Axis) -> Taken:
        met(name, axis)
        given = parameters[name]
        if axis.choice is not None:
            if given not in range(len(axis.choice)):
                raise LookupError(name)
            return int(given), axis.choice[int(given)]
        low, high = axis.whole if axis.int_uniform else (axis.uniform or axis.log_uniform or (0.0, 0.0))
        if not low <= given <= high:
            raise LookupError(name)
        return None, given

    try:
        found = walk(space, take, n_layers)
    except (LookupError, LayersError):
        return None
    return found if found.parameters == dict(parameters) else None


def n_points(space: Space) -> int | None:
    """Upper bound on the number of points; None if it depends on a model's layers or is infinite."""
    total = 1
    for axis in space.values():
        if (n := _n_inside(axis)) is None:
            return None
        total *= n
    return total


def continuous(space: Space) -> list[str]:
    """The keys with a continuous axis."""
    return [key for key, axis in space.items() if not all(one.is_listed for one in _all_of(axis))]


def _all_of(axis: Axis) -> list[Axis]:
    return [axis, *(inner for choice in axis.choice or () for inner in inner_axes(choice))]


def _n_inside(axis: Axis) -> int | None:
    if axis.choice is None:
        return None if axis.by_layers or not axis.is_listed else axis.n_values
    counts = [_n_of_value(choice) for choice in axis.choice]
    known = [n for n in counts if n is not None]
    return sum(known) if len(known) == len(counts) else None


def _n_of_value(value: object) -> int | None:
    axis = axis_in(value)
    if axis is not None:
        return _n_inside(axis)
    total = 1
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in inside:
        if (n := _n_of_value(one)) is None:
            return None
        total *= n
    return total


def _has_later(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_later, value.values() if isinstance(value, dict) else value))
    return isinstance(value, _Later)


def path_of(name: str, space: Space) -> KeyPath:
    """The path of an axis in the sweep's file, from its name."""
    key = next(key for key in space if name == key or name.startswith(f"{key}."))
    inside = name[len(key) + 1 :].split(".")
    return ("space", key, *(int(part) if part.isdigit() else part for part in inside if part))

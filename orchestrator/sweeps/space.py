"""Points of a space. A walk takes a value at each axis, and these values decide which axes follow (conditional axes).

The caller passes a `Taker`, which chooses one value of one axis: at random, as Optuna suggests, the next of a grid, or
as stored. Axes bounded by the model's layers are taken last, when the model is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from orchestrator.config.yaml_document import KeyPath, faults
from trials.draft import DraftError
from trials.spec import Frozen

Bounds = tuple[float, float]
LAYERS = "layers"  # as an upper bound: the encoder layers of the point's model


class Axis(Frozen):
    """The values of one setting; exactly one attribute is given, and a bare list is a `choice`.

    Choices may contain further axes:

        freeze:
          - none
          - {strategy: first_k, depth: {int_uniform: [1, layers]}}     # up to the model's layers
        lora: [null, {rank: {choice: [4, 8, 16]}}]                      # a rank only with adapters

    Attributes:
        choice: These values; mappings among them may contain axes.
        uniform: A number between two bounds.
        log_uniform: The same, uniform in its logarithm.
        int_uniform: An integer between two bounds, inclusive; the upper one may be ``layers``.
    """

    choice: Annotated[list[Any], Field(min_length=1)] | None = None
    uniform: Bounds | None = None
    log_uniform: Bounds | None = None
    int_uniform: tuple[int, int | Literal["layers"]] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Axis:
        given = [name for name in self.model_fields_set if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(Axis.model_fields)}")
        for value in self.choice or ():
            _check_inside(value)
        bounds = None if self.choice else getattr(self, given[0])
        if bounds and bounds[1] != LAYERS:
            self._check_bounds(bounds)
        return self

    def _check_bounds(self, bounds: Bounds) -> None:
        if not bounds[0] < bounds[1]:
            raise ValueError(f"{list(bounds)}: the first bound must be below the second")
        if max(map(abs, bounds)) >= (2**63 if self.int_uniform else 1e300):
            raise ValueError(f"{list(bounds)}: bounds are too large to sample between")
        if self.log_uniform and self.log_uniform[0] <= 0:
            raise ValueError(f"{list(self.log_uniform)}: a logarithm needs bounds above 0")

    @property
    def is_bounded_by_layers(self) -> bool:
        """Whether its upper bound is the model's number of layers."""
        return self.int_uniform is not None and self.int_uniform[1] == LAYERS

    @property
    def is_listed(self) -> bool:
        """Whether it has finitely many values, as a grid needs."""
        return self.choice is not None or self.int_uniform is not None

    def with_layers(self, n_layers: int) -> Axis:
        """The axis with `layers` replaced by a number. Raises ValueError if no value is left."""
        if not self.is_bounded_by_layers:
            return self
        assert self.int_uniform
        low = self.int_uniform[0]
        if low > n_layers:
            raise ValueError(f"int_uniform: [{low}, layers]: the model has only {n_layers} layers")
        return Axis.model_construct(int_uniform=(low, n_layers))

    @property
    def n_values(self) -> int:
        """Number of choices or integers, without nested axes."""
        if self.choice is not None:
            return len(self.choice)
        low, high = self.whole_bounds
        return high - low + 1

    @property
    def whole_bounds(self) -> tuple[int, int]:
        """The integer bounds, once they are known."""
        assert self.int_uniform
        low, high = self.int_uniform
        assert isinstance(high, int), "its bound is not known yet"
        return low, high

    def value(self, index: int) -> Any:
        """The value at an index below `n_values`."""
        return self.choice[index] if self.choice is not None else self.whole_bounds[0] + index


def axis_in(value: object) -> Axis | None:
    """The axis that a value inside a choice declares; None for a plain value."""
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in Axis.model_fields:
        return Axis.model_validate(value)
    return None


def inner_axes(value: object) -> list[Axis]:
    """All axes inside a value, including nested ones."""
    axis = axis_in(value)
    if axis is not None:
        return [axis, *(inner_axis for choice in axis.choice or () for inner_axis in inner_axes(choice))]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [inner_axis for inner in inside for inner_axis in inner_axes(inner)]


def _check_inside(value: object) -> None:
    """Raises ValueError if an axis inside a choice is not valid."""
    try:
        inner_axes(value)
    except ValidationError as error:
        first = faults(error, Axis)[0]
        path = ".".join(map(str, first.path))
        raise ValueError(f"the axis inside {value!r} is not valid: {path or 'it'}: {first.text}") from error


Space = Mapping[str, Axis]
Taken = tuple[int | None, Any]  # index into a list or None, value
Taker = Callable[[str, Axis], Taken]  # chooses a value of a named axis
Settings = dict[str, Taken]  # key of the space -> chosen value
CASES = "cases"  # the key of the space whose choices are several settings at once


class PlacedError(DraftError):
    """An invalid point; its problems are located by paths in the sweep's file."""


@dataclass(frozen=True)
class Point:
    """A cell before its files are resolved.

    Attributes:
        settings: Chosen value of each key of the space, with nested axes replaced by their values.
        parameters: Axis name to index into its choices, or to the number.
    """

    settings: Settings
    parameters: dict[str, int | float]

    def dotted_settings(self) -> Iterator[tuple[str, Any]]:
        """The settings by dotted name, including those of a case."""
        for key, (_, value) in self.settings.items():
            yield from value.items() if key == CASES else [(key, value)]

    def place(self, path: tuple[int | str, ...]) -> KeyPath:
        """The key in the sweep's file that set a draft's path."""
        for key, (index, value) in self.settings.items():
            place_in_list = () if index is None else (index,)
            for inner in value if key == CASES else ():
                if path[: len(parts := tuple(inner.split(".")))] == parts:
                    return ("space", CASES, *place_in_list, inner, *path[len(parts) :])
            parts = tuple(key.split("."))
            if path[: len(parts)] == parts:
                return ("space", key, *place_in_list, *path[len(parts) :])
        return ("trial", *path)


@dataclass(frozen=True)
class _Later:
    """Placeholder for an axis that is taken when the model is known."""

    name: str
    axis: Axis


class _Walk:
    """The values taken so far in one walk through a space."""

    def __init__(self, space: Space, take: Taker) -> None:
        self._space, self._take = space, take
        self.parameters: dict[str, int | float] = {}

    def value(self, name: str, value: Any) -> Any:
        """A value with nested axes replaced by chosen values."""
        axis = axis_in(value)
        if axis is not None:
            return self.take_value(name, axis)[1]
        if isinstance(value, Mapping):
            return {key: self.value(f"{name}.{key}", inner) for key, inner in value.items()}
        return [self.value(f"{name}.{i}", inner) for i, inner in enumerate(value)] if isinstance(value, list) else value

    def take_value(self, name: str, axis: Axis) -> Taken:
        """The value chosen for an axis, or a `_Later`."""
        if axis.is_bounded_by_layers:
            return None, _Later(name, axis)
        index, value = self._take(name, axis)
        self.parameters[name] = value if index is None else index
        return index, value if index is None else self.value(f"{name}.{index}", value)

    def replace_later(self, value: Any, n_layers: Callable[[], int]) -> Any:
        """A value with each `_Later` replaced; the axis name includes the layers, as they change its range."""
        if isinstance(value, _Later):
            n = n_layers()
            try:
                axis = value.axis.with_layers(n)
            except ValueError as error:
                raise PlacedError([(_path_of(value.name, self._space), f"{error}.")], 2) from error
            return self.take_value(f"{value.name}@{n}", axis)[1]
        if isinstance(value, dict):
            return {key: self.replace_later(inner, n_layers) for key, inner in value.items()}
        return [self.replace_later(inner, n_layers) for inner in value] if isinstance(value, list) else value


def walk(space: Space, take: Taker, n_layers: Callable[[Point], int]) -> Point:
    """One point of the space.

    Args:
        take: Chooses at every axis.
        n_layers: Layers of the model of an incomplete point; called only if an axis needs them.

    Raises:
        PlacedError: an axis has no value for that model.
    """
    walking = _Walk(space, take)
    settings: Settings = {key: walking.take_value(key, axis) for key, axis in space.items()}
    # The model is among the settings that are known: its layers bound the others.
    incomplete = Point({key: taken for key, taken in settings.items() if not _has_later(taken[1])}, {})

    def model_layers() -> int:
        return n_layers(incomplete)

    complete = {key: (index, walking.replace_later(value, model_layers)) for key, (index, value) in settings.items()}
    return Point(complete, walking.parameters)


def grid(space: Space, n_layers: Callable[[Point], int]) -> Iterator[Point]:
    """Every point of a finite space; axes bounded by the layers vary fastest, then the last axis."""
    digits: list[list[int]] = []  # the previous walk's choices: index of the value, number of values
    position = 0

    def take(name: str, axis: Axis) -> Taken:
        nonlocal position
        if position == len(digits):
            digits.append([0, axis.n_values])
        index, position = digits[position][0], position + 1
        return (index if axis.choice is not None else None), axis.value(index)

    while True:
        position = 0
        yield walk(space, take, n_layers)
        while digits and digits[-1][0] == digits[-1][1] - 1:
            digits.pop()
        if not digits:
            return
        digits[-1][0] += 1


def rebuild(
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
        low, high = axis.whole_bounds if axis.int_uniform else (axis.uniform or axis.log_uniform or (0.0, 0.0))
        if not low <= given <= high:
            raise LookupError(name)
        return None, given

    try:
        point = walk(space, take, n_layers)
    except (LookupError, PlacedError):
        return None
    return point if point.parameters == dict(parameters) else None


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
    return [
        key
        for key, axis in space.items()
        if not all(inner.is_listed for inner in (axis, *inner_axes(axis.choice or [])))
    ]


def _n_inside(axis: Axis) -> int | None:
    if axis.choice is None:
        return None if axis.is_bounded_by_layers or not axis.is_listed else axis.n_values
    counts = [_n_of_value(choice) for choice in axis.choice]
    finite = [n for n in counts if n is not None]
    return sum(finite) if len(finite) == len(counts) else None


def _n_of_value(value: object) -> int | None:
    axis = axis_in(value)
    if axis is not None:
        return _n_inside(axis)
    total = 1
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for inner in inside:
        if (n := _n_of_value(inner)) is None:
            return None
        total *= n
    return total


def _has_later(value: object) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_later, value.values() if isinstance(value, dict) else value))
    return isinstance(value, _Later)


def _path_of(name: str, space: Space) -> KeyPath:
    """The path of an axis in the sweep's file, from its name."""
    key = next(key for key in space if name == key or name.startswith(f"{key}."))
    inside = name[len(key) + 1 :].split(".")
    return ("space", key, *(int(part) if part.isdigit() else part for part in inside if part))

"""The values that a setting may take: a list of choices or a distribution; choices may contain further axes.

freeze:
  - none
  - {strategy: first_k, depth: {int_uniform: [1, layers]}}     # up to the model's layers
lora: [null, {rank: {choice: [4, 8, 16]}}]                      # a rank only with adapters
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from orchestrator.config.validation_messages import faults
from trials.settings import Frozen

Bounds = tuple[float, float]
LAYERS = "layers"  # as an upper bound: the encoder layers of the point's model


class Axis(Frozen):
    """The values of one setting; exactly one attribute is given, and a bare list is a `choice`.

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
    def by_layers(self) -> bool:
        """Whether its upper bound is the model's number of layers."""
        return self.int_uniform is not None and self.int_uniform[1] == LAYERS

    @property
    def is_listed(self) -> bool:
        """Whether it has finitely many values, as a grid needs."""
        return self.choice is not None or self.int_uniform is not None

    def within(self, n_layers: int) -> Axis:
        """The axis with `layers` replaced by a number. Raises ValueError if no value is left."""
        if not self.by_layers:
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
        low, high = self.whole
        return high - low + 1

    @property
    def whole(self) -> tuple[int, int]:
        """The integer bounds, once they are known."""
        assert self.int_uniform
        low, high = self.int_uniform
        assert isinstance(high, int), "its bound is not known yet"
        return low, high

    def value(self, index: int) -> Any:
        """The value at an index below `n_values`."""
        return self.choice[index] if self.choice is not None else self.whole[0] + index


def axis_in(value: object) -> Axis | None:
    """The axis that a value inside a choice declares; None for a plain value."""
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in Axis.model_fields:
        return Axis.model_validate(value)
    return None


def inner_axes(value: object) -> list[Axis]:
    """All axes inside a value, including nested ones."""
    axis = axis_in(value)
    if axis is not None:
        return [axis, *(found for choice in axis.choice or () for found in inner_axes(choice))]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [found for one in inside for found in inner_axes(one)]


def _check_inside(value: object) -> None:
    """Raises ValueError if an axis inside a choice is not valid."""
    try:
        inner_axes(value)
    except ValidationError as error:
        first = faults(error, Axis)[0]
        path = ".".join(map(str, first.path))
        raise ValueError(f"the axis inside {value!r} is not valid: {path or 'it'}: {first.text}") from error

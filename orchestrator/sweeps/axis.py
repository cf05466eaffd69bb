"""What a setting may be: a list of choices, or a distribution; choices may hold further axes.

freeze:
  - none
  - {strategy: first_k, depth: {int_uniform: [1, layers]}}     # as many layers as the model has
lora: [null, {rank: {choice: [4, 8, 16]}}]                      # a rank only where there are adapters
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from trials.settings import Frozen

Bounds = tuple[float, float]
LAYERS = "layers"  # as the upper bound of whole numbers: the encoder layers of the point's model


class Axis(Frozen):
    """What one setting may be; exactly one of the attributes is given, and a bare list is a `choice`.

    Attributes:
        choice: These values; mappings among them may hold axes again.
        uniform: A number between two bounds.
        log_uniform: The same, uniform in its logarithm.
        int_uniform: A whole number between two bounds, both included; the second may be ``layers``.
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
            raise ValueError(f"{list(bounds)}: bounds this large cannot be drawn between")
        if self.log_uniform and self.log_uniform[0] <= 0:
            raise ValueError(f"{list(self.log_uniform)}: a logarithm needs bounds above 0")

    @property
    def by_layers(self) -> bool:
        """Whether it ends where the model's layers do."""
        return self.int_uniform is not None and self.int_uniform[1] == LAYERS

    @property
    def is_listed(self) -> bool:
        """Whether its values can be counted: those of a grid."""
        return self.choice is not None or self.int_uniform is not None

    def within(self, n_layers: int) -> Axis:
        """The same with its bound told. Raises ValueError: nothing is between the bounds."""
        if not self.by_layers:
            return self
        assert self.int_uniform
        low = self.int_uniform[0]
        if low > n_layers:
            raise ValueError(f"int_uniform: [{low}, layers]: the model has only {n_layers} layers")
        return Axis.model_construct(int_uniform=(low, n_layers))

    @property
    def n_values(self) -> int:
        """How many values a list or a span of whole numbers has, axes inside them left out."""
        if self.choice is not None:
            return len(self.choice)
        low, high = self.whole
        return high - low + 1

    @property
    def whole(self) -> tuple[int, int]:
        """The bounds of whole numbers, told ones."""
        assert self.int_uniform
        low, high = self.int_uniform
        assert isinstance(high, int), "its bound is not told yet"
        return low, high

    def value(self, index: int) -> Any:
        """One of `n_values`."""
        return self.choice[index] if self.choice is not None else self.whole[0] + index


def axis_in(value: object) -> Axis | None:
    """The axis that a value inside a choice is; None for a plain one."""
    if isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in Axis.model_fields:
        return Axis.model_validate(value)
    return None


def inner_axes(value: object) -> list[Axis]:
    """All axes inside a value, those inside their choices too."""
    axis = axis_in(value)
    if axis is not None:
        return [axis, *(found for choice in axis.choice or () for found in inner_axes(choice))]
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [found for one in inside for found in inner_axes(one)]


def _check_inside(value: object) -> None:
    """Raises ValueError: an axis inside a choice is none."""
    try:
        inner_axes(value)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"an axis inside {value!r} is none: {path or 'it'}: {first['msg']}") from error

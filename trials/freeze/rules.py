"""Freezing while training: a rule sees what layers did so far and says how many of the lowest ones to freeze now.

A rule is a value: its parameters are part of a trial's settings and identity. It is asked after each of its intervals,
which divide the training into equal parts, and answers from the history alone, so that a resumed trial repeats its
answers. Whatever it answers, no layer is ever unfrozen (`depths_after`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from trials.errors import unknown
from trials.escaping import rule_of
from trials.plugins.loading import NOT_LOADED, Registry

ADAPTIVE = "adaptive"  # the strategy of a setting that has a rule

Row = tuple[float | None, ...]  # a value a layer; None for a layer that was frozen

Statistic = Literal["gradients", "activations"]


@dataclass(frozen=True)
class LayerHistory:
    """What a rule sees after an interval.

    Attributes:
        depth: How many of the lowest are frozen.
        rows: The statistic of each layer in each interval so far; empty rows for a rule without one.
    """

    n_layers: int
    depth: int
    rows: Sequence[Row]

    def of_layer(self, layer: int) -> list[float]:
        """The statistic of a layer in each interval; 0 where it was frozen or is not measured."""
        return [float(row[layer] or 0.0) for row in self.rows]


class FreezingRule(BaseModel):
    """When to freeze how many layers; a subclass is registered in `FREEZING_RULES` under its `name`.

    Attributes:
        name: As YAML files call it.
        statistic: What is measured of each layer for it: ``gradients``, the L1 norm of the gradient summed over an
            interval; ``activations``, how far they are from those of the pretrained encoder; None for nothing.
        n_probes: Train examples that activations are measured on.
        not_loaded: Whether its plug-in is not loaded, so that it can only be shown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    statistic: ClassVar[Statistic | None] = None
    n_probes: ClassVar[int] = 0
    not_loaded: ClassVar[bool] = False

    @property
    def n_intervals(self) -> int:
        """Equal parts of the training; the rule is asked after each but the last."""
        raise NotImplementedError

    @property
    def first_depth(self) -> int:
        """Layers that are frozen from the start."""
        return 0

    @property
    def known_depths(self) -> tuple[int, ...]:
        """The depth in each interval where it depends on nothing that is measured; else that of the start."""
        return (self.first_depth,)

    def depth(self, seen: LayerHistory) -> int:
        """How many of the lowest layers to freeze from now on."""
        raise NotImplementedError

    def refusal(self, n_layers: int) -> str | None:
        """Why it does not fit an encoder of so many layers; None if it does."""
        return None

    @property
    def label(self) -> str:
        """`gradient norm`; with the parameters that are not the default, `gradient norm, percentile 75`."""
        own = self.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        return ", ".join([self.name.replace("_", " "), *(f"{key} {_text(value)}" for key, value in own.items())])


def _text(value: object) -> str:
    if isinstance(value, list):
        return "-".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


FREEZING_RULES: Registry[type[FreezingRule]] = Registry("freezing rule")


class RuleNotLoaded(FreezingRule):
    """A rule of a stored trial whose plug-in is not loaded: its name and parameters, and no behaviour."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    not_loaded = True

    @property
    def n_intervals(self) -> int:
        """Nobody knows. Raises UnknownNameError."""
        return FREEZING_RULES[self.name](name=self.name).n_intervals

    @property
    def label(self) -> str:
        """`half_time, plug-in not loaded`."""
        return f"{self.name}, {NOT_LOADED}"


def depths_after(rule: FreezingRule, n_layers: int, rows: Sequence[Row]) -> list[int]:
    """How many layers are frozen at first and after the interval of each row: the rule is asked there, never thaws."""
    depths = [rule.first_depth]
    for n in range(1, len(rows) + 1):
        depth = rule.depth(LayerHistory(n_layers, depths[-1], rows[:n]))
        depths.append(min(n_layers, max(depths[-1], depth)))
    return depths


def stored_rule(value: object) -> FreezingRule | None:
    """A rule of a stored trial: as `new_rule`, but one of a plug-in that is not loaded is a `RuleNotLoaded`."""
    if isinstance(value, Mapping) and isinstance(value.get("name"), str) and value["name"] not in FREEZING_RULES:
        return RuleNotLoaded.model_validate(value)
    return new_rule(value)


def new_rule(value: object) -> FreezingRule | None:
    """A rule from a file: its name, or a mapping with its name and parameters. Raises ValueError."""
    if value is None or isinstance(value, FreezingRule):
        return value
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ValueError(f"a rule is a name or {{name: ..., its parameters}}. Known: {', '.join(FREEZING_RULES)}.")
    cls = FREEZING_RULES[given["name"]]
    for key in given:
        if key not in cls.model_fields:
            raise ValueError(unknown(str(key), [name for name in cls.model_fields if name != "name"]))
    try:
        return cls.model_validate(dict(cast(Mapping[str, Any], given)))
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, details['loc']))} {rule_of(cast(Any, details))}") from error


# Freeze by a timetable.


@FREEZING_RULES.register("schedule")
class Schedule(FreezingRule):
    """The depth in each of equally long parts of the training: `[0, 2, 4]` freezes two layers after the first third.

    The simplest rule: it looks at nothing. If it does as well as those that measure, their measuring buys nothing.

    Attributes:
        depths: Frozen layers in each part, never fewer than before.
    """

    name: Literal["schedule"] = "schedule"
    depths: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=1000)]

    @field_validator("depths")
    @classmethod
    def _never_fewer(cls, depths: tuple[int, ...]) -> tuple[int, ...]:
        if any(later < earlier for earlier, later in pairwise(depths)):
            raise ValueError(f"{list(depths)} unfreezes layers; `thaw_every` does that")
        return depths

    @property
    def n_intervals(self) -> int:
        """As many as depths."""
        return len(self.depths)

    @property
    def first_depth(self) -> int:
        """The first of the depths."""
        return self.depths[0]

    @property
    def known_depths(self) -> tuple[int, ...]:
        """Every depth that it freezes."""
        return self.depths

    def depth(self, seen: LayerHistory) -> int:
        """The depth of the part that begins."""
        return self.depths[min(len(seen.rows), len(self.depths) - 1)]

    def refusal(self, n_layers: int) -> str | None:
        """It must not freeze more layers than there are."""
        deepest = max(self.depths)
        return f"depth {deepest} is beyond the {n_layers} layers of the model." if deepest > n_layers else None


# Freeze layers whose gradients have settled: AutoFreeze (Liu, Agarwal and Venkataraman 2021, arXiv 2102.01386).

_MOST = 1e9  # a ratio that no other exceeds, and that percentiles can be computed with


@FREEZING_RULES.register("gradient_norm")
class GradientNorm(FreezingRule):
    """AutoFreeze's gradient-norm test.

    Over each interval the gradients of a layer are summed, and the L1 norms of the sums of its tensors are added up.
    Of each layer that is still trained, the change of that norm from the last interval to this one is divided by the
    last one. A percentile of these ratios is the threshold, and every layer below the first one that reaches it is
    frozen. So at least one layer is always trained.

    As in the paper and in its authors' code (github.com/YuhanLiu11/AutoFreeze): ten intervals, the median, gradients
    before clipping, embeddings frozen together with the first layer. Deviation: AutoFreeze makes a new optimiser at
    every freeze, so that the moments of layers that are still trained start again from zero; here they are kept.

    Attributes:
        intervals: Equal parts of the training.
        percentile: Of the ratios; a higher one freezes faster.
    """

    name: Literal["gradient_norm"] = "gradient_norm"
    statistic = "gradients"
    intervals: Annotated[int, Field(ge=2, le=1000)] = 10
    percentile: Annotated[float, Field(ge=0, le=100)] = 50.0

    @property
    def n_intervals(self) -> int:
        """As its parameter says."""
        return self.intervals

    def depth(self, seen: LayerHistory) -> int:
        """The first layer whose ratio reaches the percentile; two intervals are needed for a ratio."""
        layers = range(seen.depth, seen.n_layers)
        if len(seen.rows) < 2 or not layers:
            return seen.depth
        ratios = [_ratio(*seen.of_layer(layer)[-2:]) for layer in layers]
        threshold = np.percentile(ratios, self.percentile)
        return seen.depth + next((i for i, ratio in enumerate(ratios) if ratio >= threshold), 0)


def _ratio(before: float, now: float) -> float:
    """The change as a share of the norm before; a layer without a gradient has not changed."""
    if before == 0.0:
        return 0.0 if now == 0.0 else _MOST
    return min(abs(before - now) / before, _MOST)


# Freeze layers whose activations have stopped moving: Egeria (Wang et al. 2023, EuroSys, arXiv 2201.06227).


@FREEZING_RULES.register("plasticity")
class Plasticity(FreezingRule):
    """Egeria's training plasticity.

    The plasticity of a layer is the similarity-preserving distance (Tung and Mori 2019, arXiv 1907.09682) between its
    activations and those of a reference model on the same inputs: the squared difference of the two row-normalised
    matrices of inner products between inputs, divided by the square of their number. It is averaged over a moving
    window, and the layer has stalled when the slope of a straight line through the window has been small in so many
    intervals in a row, measured against the steepest slope that the layer has had. From the embeddings up, stalled
    layers are frozen.

    As in the paper: the distance, the moving average, the linear fit, the patience, and that only the lowest layers
    are frozen. Deviations: the reference is the pretrained encoder in full precision, where Egeria takes a new
    quantised snapshot of the model in training from time to time, on a spare CPU; activations are those of 32 train
    examples, the same in every interval, without dropout, where Egeria takes the batch at hand; all layers that have
    stalled are frozen at once, not one module at a time; nothing is unfrozen when the learning rate falls, as Egeria
    does at the steps of its schedule; and the parameters' defaults are ours, for trainings of a hundred steps instead
    of many thousands.

    Attributes:
        intervals: Equal parts of the training.
        window: Intervals that are averaged, and that the line is fitted to.
        tolerance: A slope is small up to this share of the layer's steepest one.
        patience: Intervals in a row with a small slope.
    """

    name: Literal["plasticity"] = "plasticity"
    statistic = "activations"
    n_probes = 32
    intervals: Annotated[int, Field(ge=2, le=1000)] = 20
    window: Annotated[int, Field(ge=2, le=100)] = 3
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.2
    patience: Annotated[int, Field(ge=1, le=100)] = 2

    @property
    def n_intervals(self) -> int:
        """As its parameter says."""
        return self.intervals

    def depth(self, seen: LayerHistory) -> int:
        """The first layer that has not stalled."""
        layers = range(seen.depth, seen.n_layers)
        return next((layer for layer in layers if not self._stalled(seen.of_layer(layer))), seen.n_layers)

    def _stalled(self, plasticity: list[float]) -> bool:
        # Before the first interval the layer is the reference itself.
        values = np.array([0.0, *plasticity])
        averages = [values[max(0, end - self.window) : end].mean() for end in range(1, len(values) + 1)]
        steps = np.arange(self.window)
        ends = range(self.window, len(averages) + 1)
        slopes = np.abs([np.polyfit(steps, averages[end - self.window : end], 1)[0] for end in ends])
        if len(slopes) < self.patience:
            return False
        return bool((slopes[-self.patience :] <= self.tolerance * slopes.max()).all())

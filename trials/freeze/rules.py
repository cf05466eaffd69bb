"""Freezing while training: a rule sees what layers did so far and says how many of the lowest ones to freeze now.

A rule is a value: its parameters are part of a trial's settings and identity. It is asked after each of its intervals,
which divide the training into equal parts, and answers from the history alone, so that a resumed trial repeats its
answers. Whatever it answers, no layer is ever unfrozen (`depths_after`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from trials.errors import unknown
from trials.escaping.plain_rules import rule_of
from trials.plugins.registry import NOT_LOADED, Registry

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
        each = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, each['loc']))} {rule_of(cast(Any, each))}") from error

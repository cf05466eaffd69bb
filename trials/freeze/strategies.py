"""Freeze strategies: each is a pure function that chooses the encoder layers to freeze.

A strategy maps the number of encoder layers and the freeze depth (how many to freeze) to the indices of the frozen
layers, counted from the embeddings. A depth is possible if the strategy returns that many layers; `possible_depths`
tests that, so possible depths are defined nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from trials.plugins.registry import Registry

FreezeStrategy = Callable[[int, int], frozenset[int]]

FREEZE_STRATEGIES: Registry[FreezeStrategy] = Registry("freeze strategy")

LAYERS = "layers"  # an explicit list of layers instead of a rule


@dataclass(frozen=True)
class StrategyLook:
    """How tables and figures show a strategy; every field has a default.

    Attributes:
        word: In labels, without its depth; by default the name without a final `_k`.
        numbered: Whether the depth stands behind the word; False where there is only one.
        colour, symbol, dash, pattern: Of its marks, lines and bars, in Plotly's words; empty leaves them to the figure.
    """

    word: str = ""
    numbered: bool = True
    colour: str = ""
    symbol: str = ""
    dash: str = ""
    pattern: str = ""


_LOOKS: dict[FreezeStrategy, StrategyLook] = {}


def shown_as(look: StrategyLook) -> Callable[[FreezeStrategy], FreezeStrategy]:
    """Decorator, below `register`, for a strategy that is not shown in the default way."""

    def add(strategy: FreezeStrategy) -> FreezeStrategy:
        _LOOKS[strategy] = look
        return strategy

    return add


def look_of(name: str) -> StrategyLook:
    """How a strategy is shown; the default for one that is not registered."""
    strategy = FREEZE_STRATEGIES.get(name)
    return StrategyLook() if strategy is None else _LOOKS.get(strategy, StrategyLook())


def word_of(name: str) -> str:
    """What labels call a strategy: its own word, or its name where another strategy has that word."""
    same = [other for other in FREEZE_STRATEGIES if _word(other) == _word(name)]
    return name if len(same) > 1 else _word(name)


def _word(name: str) -> str:
    return look_of(name).word or name.removesuffix("_k")


@FREEZE_STRATEGIES.register("none")
@shown_as(StrategyLook(numbered=False, symbol="circle", dash="solid"))
def none(n_layers: int, depth: int) -> frozenset[int]:
    """No layer: the baseline."""
    return frozenset()


@FREEZE_STRATEGIES.register("first_k")
@shown_as(StrategyLook(colour="#0072B2", symbol="square", dash="solid", pattern="/"))
def first_k(n_layers: int, depth: int) -> frozenset[int]:
    """The `depth` layers nearest the embeddings."""
    return frozenset(range(depth))


@FREEZE_STRATEGIES.register("last_k")
@shown_as(StrategyLook(colour="#D55E00", symbol="diamond", dash="dash", pattern="\\"))
def last_k(n_layers: int, depth: int) -> frozenset[int]:
    """The `depth` layers nearest the head."""
    return frozenset(range(n_layers - depth, n_layers))


@FREEZE_STRATEGIES.register("alternating")
@shown_as(StrategyLook(numbered=False, colour="#009E73", symbol="triangle-up", dash="dot", pattern="x"))
def alternating(n_layers: int, depth: int) -> frozenset[int]:
    """The even-indexed layers 0, 2, 4, ... (Emekaeze's alternating freeze)."""
    return frozenset(range(0, n_layers, 2))


@FREEZE_STRATEGIES.register("all_encoder")
@shown_as(StrategyLook(word="all", numbered=False, colour="#CC79A7", symbol="x", dash="dashdot", pattern="."))
def all_encoder(n_layers: int, depth: int) -> frozenset[int]:
    """Every encoder layer: only the head is trained, and the embeddings unless frozen too."""
    return frozenset(range(n_layers))


def possible_depths(strategy: str, n_layers: int) -> list[int]:
    """The possible freeze depths of a strategy in a model of `n_layers`, ascending: those of which it freezes exactly
    so many layers.
    """
    rule = FREEZE_STRATEGIES[strategy]
    return [depth for depth in range(n_layers + 1) if len(rule(n_layers, depth)) == depth]


def is_nested(strategy: str, n_layers: int) -> bool:
    """Whether each depth of a strategy freezes all that a smaller one does; False for one that is not registered."""
    rule = FREEZE_STRATEGIES.get(strategy)
    return rule is not None and all(
        rule(n_layers, less) <= rule(n_layers, more) for less, more in pairwise(possible_depths(strategy, n_layers))
    )

"""Freeze strategies: each is a pure function that chooses the encoder layers to freeze.

A strategy maps the number of encoder layers and the freeze depth (how many to freeze) to the indices of the frozen
layers, counted from the embeddings. A depth is possible if the strategy returns exactly that many layers;
`possible_depths` tests that, so possible depths are defined nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from trials.errors import UnknownNameError, reason
from trials.plugins.registry import Registry

FreezeStrategy = Callable[[int, int], frozenset[int]]

FREEZE_STRATEGIES: Registry[FreezeStrategy] = Registry("freeze strategy", reserved=("layers", "adaptive"))

LAYERS = "layers"  # an explicit list of layers instead of a rule
_LOOK = "permafrost_look"


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


def shown_as(look: StrategyLook) -> Callable[[FreezeStrategy], FreezeStrategy]:
    """Decorator, below `register`, for a strategy that is not shown in the default way."""

    def add(strategy: FreezeStrategy) -> FreezeStrategy:
        setattr(strategy, _LOOK, look)
        return strategy

    return add


def look_of(name: str) -> StrategyLook:
    """How a strategy is shown; the default for one that is not registered."""
    strategy = FREEZE_STRATEGIES.get(name)
    return getattr(strategy, _LOOK, StrategyLook())


def word_of(name: str) -> str:
    """What labels call a strategy: its word, or where one that was registered before has that word, its whole name."""
    owner = next(other for other, _ in FREEZE_STRATEGIES.items() if _word(other) == _word(name))
    if owner == name:
        return _word(name)
    return f"{name} (plug-in)" if name == _word(owner) else name


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


def frozen_layers(strategy: str, n_layers: int, depth: int) -> frozenset[int]:
    """What a strategy freezes at a depth. Raises ValueError: not exactly `depth` layers of the model, and why not."""
    rule = FREEZE_STRATEGIES[strategy]
    if not 0 <= depth <= n_layers:  # some would fill the memory with them
        raise ValueError(f"the model has {n_layers} layers")
    try:
        layers = frozenset(map(int, rule(n_layers, depth)))
    except Exception as error:  # anything can be wrong with another's code
        raise ValueError(f"{type(error).__name__}: {reason(error)}") from error
    if len(layers) != depth or not all(0 <= layer < n_layers for layer in layers):
        raise ValueError(f"it would freeze the layers {sorted(layers)}")
    return layers


def possible_depths(strategy: str, n_layers: int) -> list[int]:
    """The possible freeze depths of a strategy in a model of `n_layers`, ascending: those at which it freezes exactly
    so many of the model's layers.
    """
    return [depth for depth in range(n_layers + 1) if _is_possible(strategy, n_layers, depth)]


def _is_possible(strategy: str, n_layers: int, depth: int) -> bool:
    try:
        frozen_layers(strategy, n_layers, depth)
    except UnknownNameError:
        raise
    except ValueError:
        return False
    return True


def is_nested(strategy: str, n_layers: int) -> bool:
    """Whether each depth of a strategy freezes all that a smaller one does; False for one that is not registered."""
    if strategy not in FREEZE_STRATEGIES:
        return False
    sets = [frozen_layers(strategy, n_layers, depth) for depth in possible_depths(strategy, n_layers)]
    return all(less <= more for less, more in pairwise(sets))

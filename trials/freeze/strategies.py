"""Freeze strategies: each is a pure function that chooses the encoder layers to freeze.

A strategy maps the number of encoder layers and the freeze depth (how many to freeze) to the indices of the frozen
layers, counted from the embeddings. A depth is possible if the strategy returns exactly that many layers;
`possible_depths` tests that, so possible depths are defined nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from trials.errors import reason
from trials.plugins.registry import Registry

FreezeStrategy = Callable[[int, int], frozenset[int]]

LAYERS = "layers"  # an explicit list of layers instead of a rule

FREEZE_STRATEGIES: Registry[FreezeStrategy] = Registry("freeze strategy", reserved=(LAYERS,))
TEXT_COLOUR = "text"  # the attribute of a look that is the colour of a figure's text
_LOOK = "permafrost_look"
_MODELS_TO = 24  # layers: a strategy with one depth in each of these models has no depth in its label


@dataclass(frozen=True)
class StrategyLook:
    """How tables and figures show a strategy; every field has a default.

    Attributes:
        word: In labels, without its depth; by default the name without a final `_k`.
        phrase: In sentences; `{layers}` stands for `4 of 6 layers`. By default the layers are named one by one.
        colour, symbol, dash, pattern: Of its marks, lines and bars, in Plotly's words; empty leaves them to the
            figure, the colour `text` is that of its text.
    """

    word: str = ""
    phrase: str = ""
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


def word_at(name: str, depth: int) -> str:
    """What labels call a registered strategy at a depth: `first 2`; `all`, which has one depth in any model."""
    return f"{word_of(name)} {depth}" if has_depths(name) else word_of(name)


def has_depths(name: str) -> bool:
    """Whether there is a model in which a strategy has several depths, so that a label must say which."""
    return name not in FREEZE_STRATEGIES or _has_depths(name, id(FREEZE_STRATEGIES[name]))


@lru_cache(maxsize=256)
def _has_depths(name: str, _registered: int) -> bool:
    return any(len(possible_depths(name, n_layers)) > 1 for n_layers in range(1, _MODELS_TO + 1))


@FREEZE_STRATEGIES.register("none")
@shown_as(StrategyLook(phrase="none", colour=TEXT_COLOUR, symbol="circle", dash="solid"))
def none(n_layers: int, depth: int) -> frozenset[int]:
    """No layer: the baseline."""
    return frozenset()


@FREEZE_STRATEGIES.register("first_k")
@shown_as(StrategyLook(phrase="the first {layers}", colour="#0072B2", symbol="square", dash="solid", pattern="/"))
def first_k(n_layers: int, depth: int) -> frozenset[int]:
    """The `depth` layers nearest the embeddings."""
    return frozenset(range(depth))


@FREEZE_STRATEGIES.register("last_k")
@shown_as(StrategyLook(phrase="the last {layers}", colour="#D55E00", symbol="diamond", dash="dash", pattern="\\"))
def last_k(n_layers: int, depth: int) -> frozenset[int]:
    """The `depth` layers nearest the head."""
    return frozenset(range(n_layers - depth, n_layers))


@FREEZE_STRATEGIES.register("alternating")
@shown_as(StrategyLook(phrase="every other layer", colour="#009E73", symbol="triangle-up", dash="dot", pattern="x"))
def alternating(n_layers: int, depth: int) -> frozenset[int]:
    """The even-indexed layers 0, 2, 4, ... (Emekaeze's alternating freeze)."""
    return frozenset(range(0, n_layers, 2))


@FREEZE_STRATEGIES.register("all_encoder")
@shown_as(StrategyLook(word="all", phrase="all layers", colour="#CC79A7", symbol="x", dash="dashdot", pattern="."))
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
    possible, _ = [], FREEZE_STRATEGIES[strategy]  # an unknown name is an error
    for depth in range(n_layers + 1):
        with suppress(ValueError):
            frozen_layers(strategy, n_layers, depth)
            possible.append(depth)
    return possible

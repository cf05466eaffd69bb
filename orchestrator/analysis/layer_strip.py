"""The layer strip: a setting as a row of squares, filled where frozen; the embeddings, then the encoder's layers.

    first 2 + embeddings of 6 layers: ■ ■■□□□□

It is made from a setting's label, which every table and every answer has (`FreezeSpec.label`). A column of a table
holds `FreezeName`s: text, to which each kind of table adds the strip in its own way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Self

from trials.escaping import escaped
from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS, StrategyLook, frozen_layers, look_of, possible_depths
from trials.settings import FROZEN_EMBEDDINGS, FreezeSpec

FROZEN, TRAINED = "■", "□"
LEGEND = f"{FROZEN} frozen, {TRAINED} trained: first the embeddings, then the layers from the input up"
MOST_LAYERS = 48  # a longer strip is not taken in at a glance


class FreezeName(str):
    """What a setting freezes, spelled out for people: `first 4 + embeddings` for the label `first 4+E`.

    Attributes:
        squares: `■ ■■■■□□`; empty if there is none.
    """

    squares: str
    heard: str

    def __new__(cls, label: str, n_layers: int) -> Self:
        """The name of a setting in an encoder of `n_layers` layers."""
        made = super().__new__(cls, freeze_name(label))
        made.squares, made.heard = layer_strip(label, n_layers), strip_in_words(label, n_layers)
        return made


def freeze_name(label: object) -> str:
    """What a freeze label says, spelled out: `layers 0,1,4+E` is `layers 1 to 2, 5 + embeddings`.

    Sets of layers are counted from 1, as in the strip; in labels, as in YAML, they are counted from 0.
    """
    word = str(label).removesuffix(FROZEN_EMBEDDINGS)
    layers, by = _set_of(word), word.partition(" by ")
    text = word if layers is None else _counted(sorted(layers)) + by[1] + by[2]
    return escaped(text) + (" + embeddings" if word != str(label) else "")


def strip_and_word(label: str, n_layers: int) -> str:
    """`■ ■■■■□□ first 4`, for narrow columns: the first square says whether the embeddings are frozen."""
    squares = layer_strip(label, n_layers)
    return f"{squares} {freeze_name(label.removesuffix(FROZEN_EMBEDDINGS))}" if squares else freeze_name(label)


class FrozenParts(NamedTuple):
    """What a setting freezes.

    Attributes:
        layers: Indices of the frozen encoder layers, from 0 next to the embeddings.
        strategy: The registered one that the label names; `layers` for a set or the embeddings alone.
    """

    layers: frozenset[int]
    embeddings: bool
    strategy: str = LAYERS


def frozen_parts(label: str, n_layers: int) -> FrozenParts | None:
    """What a label freezes in an encoder of `n_layers` layers; None if the label is not one of `FreezeSpec.label`."""
    registered = tuple((name, id(strategy), look_of(name)) for name, strategy in FREEZE_STRATEGIES.items())
    named = _by_label(n_layers, registered).get(label)
    if named is not None:
        return named
    word = label.removesuffix(FROZEN_EMBEDDINGS)
    layers = _set_of(word)
    if layers is None or not layers <= frozenset(range(n_layers)):
        return None
    return FrozenParts(layers, embeddings=word != label)


def _set_of(word: str) -> frozenset[int] | None:
    """The layers that `layers 0,3` lists; None for any other word."""
    numbers = word.removeprefix(f"{LAYERS} ").partition(" by ")[0].split(",")
    listed = word.startswith(f"{LAYERS} ") and all(number.isdecimal() for number in numbers)
    return frozenset(map(int, numbers)) if listed else None


@lru_cache(maxsize=64)
def _by_label(n_layers: int, registered: tuple[tuple[str, int, StrategyLook], ...]) -> dict[str, FrozenParts]:
    """What every registered strategy freezes at each of its depths, by the label of that setting."""
    parts = {}
    for name, *_ in registered:
        for depth in possible_depths(name, n_layers):
            layers = frozen_layers(name, n_layers, depth)
            for embeddings in (False, True):
                freeze = FreezeSpec(strategy=name, layers=tuple(sorted(layers)), embeddings=embeddings)
                parts[freeze.label] = FrozenParts(layers, embeddings, name)
    return parts


def layer_strip(label: str, n_layers: int) -> str:
    """`■ ■■□□□□`; empty for an unknown label or an encoder with more than `MOST_LAYERS` layers."""
    found = frozen_parts(label, n_layers) if 0 < n_layers <= MOST_LAYERS else None
    if found is None:
        return ""
    layers = "".join(FROZEN if layer in found.layers else TRAINED for layer in range(n_layers))
    return f"{FROZEN if found.embeddings else TRAINED} {layers}"


def strip_in_words(label: str, n_layers: int) -> str:
    """`layers 1 to 2 of 6 and the embeddings frozen`, for those who hear it; the label itself if it is unknown."""
    found = frozen_parts(label, n_layers)
    if found is None:
        return label
    if len(found.layers) == n_layers:
        layers = f"all {n_layers} layers"
    elif found.layers:
        layers = f"{_counted(sorted(found.layers))} of {n_layers}"
    else:
        layers = ""
    words = " and ".join(filter(None, [layers, "the embeddings" if found.embeddings else ""]))
    return f"{words or f'none of {n_layers} layers'} frozen"


def _counted(layers: list[int]) -> str:
    """`layer 3`, `layers 1 to 4`, `layers 1, 3, 5`: counted from 1."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    ranges = (f"{run[0] + 1}" if len(run) == 1 else f"{run[0] + 1} to {run[-1] + 1}" for run in runs)
    return f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(ranges)}"

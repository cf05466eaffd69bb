"""Freeze strategies: each is a pure function that chooses the encoder layers to freeze.

A strategy maps the number of encoder layers and the freeze depth (how many to freeze) to the indices of the frozen
layers, counted from the embeddings. A depth is possible if the strategy returns that many layers; `possible_depths`
tests that, so possible depths are defined nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

from trials.registry import Registry

FreezeStrategy = Callable[[int, int], frozenset[int]]

FREEZE_STRATEGIES: Registry[FreezeStrategy] = Registry("freeze strategy")

LAYERS = "layers"  # an explicit list of layers instead of a rule


@FREEZE_STRATEGIES.register("none")
def none(n_layers: int, depth: int) -> frozenset[int]:
    """No layer: the baseline."""
    return frozenset()


@FREEZE_STRATEGIES.register("first_k")
def first_k(n_layers: int, depth: int) -> frozenset[int]:
    """The `depth` layers nearest the embeddings."""
    return frozenset(range(depth))


@FREEZE_STRATEGIES.register("last_k")
def last_k(n_layers: int, depth: int) -> frozenset[int]:
    """The `depth` layers nearest the head."""
    return frozenset(range(n_layers - depth, n_layers))


@FREEZE_STRATEGIES.register("alternating")
def alternating(n_layers: int, depth: int) -> frozenset[int]:
    """The even-indexed layers 0, 2, 4, ... (Emekaeze's alternating freeze)."""
    return frozenset(range(0, n_layers, 2))


@FREEZE_STRATEGIES.register("all_encoder")
def all_encoder(n_layers: int, depth: int) -> frozenset[int]:
    """Every encoder layer: only the head is trained, and the embeddings unless frozen too."""
    return frozenset(range(n_layers))


def possible_depths(strategy: str, n_layers: int) -> list[int]:
    """The possible freeze depths of a strategy in a model of `n_layers`, ascending."""
    rule = FREEZE_STRATEGIES[strategy]
    return [depth for depth in range(n_layers + 1) if len(rule(n_layers, depth)) == depth]

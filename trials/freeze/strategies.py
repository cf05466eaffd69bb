"""Which encoder layers keep their pretrained weights: one pure function a strategy.

A strategy gets the number of encoder layers and the freeze depth (how many of them to freeze) and returns the indices
of the frozen ones, counted from the embeddings. A depth that a strategy cannot have is one for which it does not
return that many layers; `possible_depths` asks it, so nothing about depths is written twice.
"""

from __future__ import annotations

from collections.abc import Callable

from trials.registry import Registry

FreezeStrategy = Callable[[int, int], frozenset[int]]

FREEZE_STRATEGIES: Registry[FreezeStrategy] = Registry("freeze strategy")

LAYERS = "layers"  # the one strategy that is no rule: an explicit list of layers


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
    """Every encoder layer: only the head, and the embeddings unless frozen too, still learn."""
    return frozenset(range(n_layers))


def possible_depths(strategy: str, n_layers: int) -> list[int]:
    """The freeze depths that a strategy has in a model of `n_layers`, ascending."""
    rule = FREEZE_STRATEGIES[strategy]
    return [depth for depth in range(n_layers + 1) if len(rule(n_layers, depth)) == depth]

"""What of a trial decides its cost, as numbers of work: steps, arithmetic forward and back, parameters moved.

Arithmetic is counted as is usual (Kaplan et al. 2020, "Scaling laws for neural language models", section 2.1): two
operations a weight and token forward, plus attention's products of all pairs of tokens; backward the same again for
what passes through a layer and once more for the gradients of its weights. Frozen layers below the lowest one that
learns are run forward only, and not at all where their output is kept (`trials.prefix.rule`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from orchestrator.forecast.cost_inputs import Lengths, Sizes, padded_length
from trials.cache.node_cache import existing_folder
from trials.models.family import MODEL_FAMILIES
from trials.prefix.rule import is_worth_it, prefix_depth, prefix_key
from trials.settings import FreezeSpec
from trials.spec import TrialSpec
from trials.training.steps import evaluation_steps, steps_an_epoch

GIGA = 1e9
EVAL_BATCH, LENGTH_WINDOW = 64, 16  # as `trials.training.loop` and `trials.training.batching` have them
LAZY_ROWS = 1_024  # of a table, as `trials.training.lazy_adamw`


@dataclass(frozen=True)
class Work:
    """What a trial computes, in units that time is proportional to.

    Attributes:
        steps: Optimiser steps.
        forward: Arithmetic of training forward, in giga-operations.
        backward: The same backward.
        moved: Parameters that an optimiser step moves, times steps, in billions.
        touched: Numbers of all padded tokens of training, in billions: what is collated and read from memory.
        evaluations: On dev, and one on test.
        evaluated: Arithmetic of evaluation, in giga-operations.
        scored: Items evaluated.
    """

    steps: float
    forward: float
    backward: float
    moved: float
    touched: float
    evaluations: float
    evaluated: float
    scored: float

    def share(self, part: float) -> Work:
        """So large a part of it."""
        return Work(*(part * value for value in astuple(self)))

    @property
    def training(self) -> tuple[float, ...]:
        """The terms of the time of training."""
        return self.steps, self.forward, self.backward, self.moved, self.touched

    @property
    def evaluation(self) -> tuple[float, ...]:
        """The terms of the time of evaluation."""
        return self.evaluations, self.evaluated, self.scored


@dataclass(frozen=True)
class Memory:
    """What a trial holds, in bytes of 32-bit numbers: the terms of its peak.

    Attributes:
        base: 1: the program and its libraries.
        weights: Of the whole encoder.
        learning: Gradients and the two moments of what learns.
        activations: Of the layers that learn, at the longest batch.
        evaluating: The longest batch of an evaluation.
    """

    base: float
    weights: float
    learning: float
    activations: float
    evaluating: float

    @property
    def terms(self) -> tuple[float, ...]:
        """All of them."""
        return self.base, self.weights, self.learning, self.activations, self.evaluating


@dataclass(frozen=True)
class PrefixWork:
    """States of frozen layers that are computed once: sentences, and giga-operations."""

    items: float
    forward: float


def shape_key(spec: TrialSpec) -> str:
    """Trials of one shape take the same time a step: all that decides it but how many steps and sentences there are."""
    frozen = [spec.freeze.layers, spec.freeze.embeddings, spec.thaw_every, cached_depth(spec), spec.frozen_dropout]
    optim = [spec.optim.batch_size, spec.batching, spec.optim.embedding_updates]
    return _digest([group_key(spec), spec.precision, *frozen, *optim, spec.lora.model_dump() if spec.lora else None])


def group_key(spec: TrialSpec) -> str:
    """Model, task and corpus as a trial sees them."""
    return _digest([spec.task, spec.model.revision, spec.data.content(), spec.max_length, spec.lowercase])


def cached_depth(spec: TrialSpec) -> int:
    """Layers that are not run, as their output is kept."""
    worth = is_worth_it(spec) and spec.model.family in MODEL_FAMILIES
    return prefix_depth(spec) if worth else 0


def work_of(spec: TrialSpec, sizes: Sizes, lengths: Lengths) -> Work:
    """The work of a whole trial."""
    cached, epochs, items = cached_depth(spec), spec.optim.epochs, spec.train_size
    steps = steps_an_epoch(spec) * epochs
    window = LENGTH_WINDOW if spec.batching == "length" else 1
    padded = padded_length(lengths.train, spec.optim.batch_size, window=window)
    per_layer = _operations(sizes, padded) * items / GIGA
    backward = moved = 0.0
    for epoch in range(epochs):
        passed, learning = _learning(spec, _freeze_at(spec, epoch), sizes)
        backward += per_layer * (passed + learning)
        moved += _moved(spec, _freeze_at(spec, epoch), sizes, padded) * steps / epochs / GIGA
    evaluations = len(evaluation_steps(steps, epochs, spec.eval_every))
    of_dev, of_test = (_evaluated(split, n, sizes) for split, n in _evaluation_splits(lengths))
    return Work(
        steps=steps,
        forward=per_layer * epochs * (sizes.layers - cached),
        backward=backward,
        moved=moved,
        touched=padded * items * epochs * sizes.width / GIGA,
        evaluations=evaluations + (lengths.n_test > 0),
        evaluated=(evaluations * of_dev + of_test) * (sizes.layers - cached),
        scored=evaluations * lengths.n_dev + lengths.n_test,
    )


def memory_of(spec: TrialSpec, sizes: Sizes, lengths: Lengths) -> Memory:
    """What a trial holds at its peak."""
    freeze, longest = spec.always_frozen, float(lengths.train.max())
    passed, _ = _learning(spec, freeze, sizes)
    tokens = spec.optim.batch_size * longest
    a_token = 8 * sizes.width + 2 * sizes.inner  # what a layer keeps of a token for its backward pass, about
    evaluating = EVAL_BATCH * float(lengths.dev.max(initial=0)) * a_token
    return Memory(
        base=1.0,
        weights=4.0 * sizes.total,
        learning=12.0 * _moved(spec, freeze, sizes, longest),
        activations=4.0 * tokens * a_token * max(passed, 1),
        evaluating=4.0 * evaluating,
    )


def kept_here(spec: TrialSpec, depth: int) -> bool:
    """Whether this machine keeps states of a corpus at a depth, from sweeps before."""
    return existing_folder("prefix", prefix_key(spec, depth)) is not None


def nothing_kept(spec: TrialSpec, depth: int) -> bool:
    """No states at all: so it is on a machine that nothing has run on."""
    return False


class PrefixLedger:
    """Which states of frozen layers are kept after the trials so far: who comes first computes them for all."""

    def __init__(self, kept: Callable[[TrialSpec, int], bool]) -> None:
        """`kept` tells of a trial's corpus and a depth whether its states are there before the first trial."""
        self._kept: dict[str, dict[int, float]] = {}  # corpus and model -> depth -> share of train that is kept
        self._before = kept

    def take(self, spec: TrialSpec, sizes: Sizes, lengths: Lengths) -> PrefixWork:
        """What the next trial has to compute, from the deepest states that are there."""
        depth = cached_depth(spec)
        if depth == 0:
            return PrefixWork(0.0, 0.0)
        kept = self._kept.setdefault(prefix_key(spec, 0), {})
        if depth not in kept and self._before(spec, depth):
            kept[depth] = 1.0
        before, below = kept.get(depth), max((d for d in kept if d < depth), default=0)
        missing = spec.train_size * (1 - (before or 0.0))
        splits = [(lengths.train, missing)]
        if before is None:
            splits += _evaluation_splits(lengths)
        kept[depth] = 1 - (1 - (before or 0.0)) * (1 - min(spec.train_size / lengths.n_train, 1.0))
        operations = sum(_operations(sizes, float(split.mean())) * n for split, n in splits if len(split))
        return PrefixWork(sum(n for _, n in splits), operations * (depth - below) / GIGA)


def _operations(sizes: Sizes, length: float) -> float:
    """Of one layer forward over an item of so many tokens."""
    return length * (2 * sizes.layer + 4 * length * sizes.width)


def _freeze_at(spec: TrialSpec, epoch: int) -> FreezeSpec:
    return spec.freeze if spec.thaw_every is None else spec.freeze.after_thaws(epoch // spec.thaw_every)


def _learning(spec: TrialSpec, freeze: FreezeSpec, sizes: Sizes) -> tuple[int, int]:
    """Layers that a gradient passes through, and those of them whose weights have one."""
    learning = [layer for layer in range(sizes.layers) if layer not in freeze.layers]
    if spec.lora is not None:  # adapters are small: a gradient passes, and next to none is computed for weights
        lowest = 0 if spec.lora.layers == "all" else min(learning, default=sizes.layers)
        return sizes.layers - lowest, 0
    lowest = 0 if not freeze.embeddings else min(learning, default=sizes.layers)
    return sizes.layers - lowest, len(learning)


def _moved(spec: TrialSpec, freeze: FreezeSpec, sizes: Sizes, padded: float) -> float:
    """Parameters that a step moves."""
    table = 0.0 if freeze.embeddings else float(sizes.table)
    if spec.optim.embedding_updates == "lazy":
        table = min(table, (padded * spec.optim.batch_size + LAZY_ROWS) * sizes.table_width)
    if spec.lora is not None:
        return table + sizes.layers * 4.0 * spec.lora.rank * sizes.width
    return table + (sizes.layers - len(freeze.layers)) * sizes.layer


def _evaluation_splits(lengths: Lengths) -> list[tuple[np.ndarray, float]]:
    return [(lengths.dev, lengths.n_dev), (lengths.test, lengths.n_test)]


def _evaluated(split: np.ndarray, n: float, sizes: Sizes) -> float:
    """Giga-operations of one layer over a split; by length, so that next to nothing is padding."""
    if not len(split):
        return 0.0
    return float(np.mean([_operations(sizes, float(length)) for length in split])) * n / GIGA


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]

"""Which layers of a trial never change, and what their output depends on; without torch, so that a plan can use it.

The output is not cached where trained layers lie below frozen ones, where frozen layers run with dropout, or where a
state would be read less often than computing it costs. Neither is it where the model, cut at that layer, would compute
something else than the whole one.
"""

from __future__ import annotations

import hashlib
import json

from trials.errors import ModelError
from trials.models.family import MODEL_FAMILIES
from trials.spec import TrialSpec
from trials.tasks import TASKS

VERSION = 6  # version of the states: increment it when the same key would give other states
CPU = "cpu"  # the device of a `prefix_key` that is no GPU


def prefix_depth(spec: TrialSpec) -> int:
    """Number of layers, counted from the embeddings, that never change in a trial; 0 if none can be cached."""
    freeze = spec.always_frozen
    has_dropout = spec.frozen_dropout and spec.dropout != 0.0  # so frozen layers give another output each time
    if not freeze.embeddings or has_dropout:
        return 0
    if spec.lora is not None and spec.lora.layers == "all":
        return 0
    # The frozen layers that follow the embeddings without a gap; above a trained layer the input changes at each step.
    return next((k for k, layer in enumerate(freeze.layers) if k != layer), freeze.depth)


def is_worth_it(spec: TrialSpec) -> bool:
    """Whether a trial reads a cached state more often than it computes it."""
    return spec.optim.epochs > 1


def cached_depth(spec: TrialSpec) -> int:
    """Number of layers whose output is cached, so that they do not run in a step; 0 for none.

    The first call for a model of an unregistered family loads it.
    """
    # In this order: whether a model can be cut is found out by running it, which a plan avoids where it can.
    depth = prefix_depth(spec) if is_worth_it(spec) else 0
    return 0 if depth and why_not_cut(spec, depth) else depth


def why_not_cut(spec: TrialSpec, depth: int) -> str | None:
    """Why the model of a trial cannot be cut at a layer; None if it can."""
    if spec.model.family in MODEL_FAMILIES:
        return None
    from trials.model_checks.cut_model import difference_when_cut  # a plan of registered families needs no torch

    try:
        return difference_when_cut(spec.model, TASKS[spec.task].head, depth)
    except (ModelError, OSError) as error:  # of an earlier trial whose model is gone
        return str(error)


def prefix_key(spec: TrialSpec, depth: int, device: str = CPU) -> str:
    """A digest of everything the states at a depth, and the seconds that they took, depend on; their folder's name.

    `device`: the name of a GPU, or CPU.
    """
    # Neither the freeze, the seeds nor the learning rates are in it: below the first trained layer they change nothing,
    # so all trials of a sweep that freeze as deep share one file, whichever of them computes it.
    data = spec.data.content()
    content = [
        VERSION,
        device,
        spec.task,
        data,
        spec.model.revision,
        spec.max_length,
        spec.lowercase,
        spec.precision,
        depth,
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

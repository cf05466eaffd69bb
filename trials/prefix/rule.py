"""Which layers of a trial never change, and what their output depends on; no torch, so that a plan can ask.

Nothing is kept where layers that learn stand below frozen ones, where the frozen part runs with dropout, or where it
would be used less than it costs.
"""

from __future__ import annotations

import hashlib
import json

from trials.spec import TrialSpec

VERSION = 2  # of the states: raise it when the same key would give others


def prefix_depth(spec: TrialSpec) -> int:
    """How many layers from the embeddings on never change in a trial: 0 where a prefix cannot be kept."""
    freeze = spec.always_frozen
    if not freeze.embeddings or (spec.frozen_dropout and spec.dropout != 0.0):
        return 0
    if spec.lora is not None and spec.lora.layers == "all":
        return 0
    return next((k for k, layer in enumerate(freeze.layers) if k != layer), freeze.depth)


def is_worth_it(spec: TrialSpec) -> bool:
    """Whether a trial reads a state more often than it would compute it."""
    return spec.optim.epochs > 1


def prefix_key(spec: TrialSpec, depth: int) -> str:
    """What the states at a depth depend on, as a folder's name."""
    data = spec.data.content()
    content = [VERSION, spec.task, data, spec.model.revision, spec.max_length, spec.lowercase, spec.precision, depth]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

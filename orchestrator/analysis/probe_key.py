"""What the probes of a trial's setting depend on; without torch, so that readers of a store can use it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from trials.spec import TrialSpec

VERSION = 1  # of the probes: increment it when the same key would give others


def states_key(spec: TrialSpec) -> str:
    """A digest of everything but the train subset that probes depend on: settings with the same key share one pass."""
    return _digest(_content(spec))


def probe_id(spec: TrialSpec) -> str:
    """A digest of everything but the seed of the train subset that probes depend on; whatever is frozen."""
    return _digest([*_content(spec), spec.train_size])


def subset_seed(spec: TrialSpec) -> int:
    """The seed that draws a trial's train subset, and so the one of its probes."""
    return spec.seed if spec.subset_seed is None else spec.subset_seed


def _content(spec: TrialSpec) -> list[Any]:
    recipe = [spec.task, spec.score, spec.max_length, spec.lowercase, spec.precision]
    return [VERSION, spec.data.content(), spec.model.revision, *recipe]


def _digest(content: list[Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

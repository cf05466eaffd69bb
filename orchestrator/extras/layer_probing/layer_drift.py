"""How far training moved each layer: its weights, and the states that it makes.

The weights' change is |W - W0| / |W0|, Frobenius norms over all tensors of a layer, against the pretrained model. The
states are compared by linear CKA (S. Kornblith, M. Norouzi, H. Lee and G. Hinton, "Similarity of Neural Network
Representations Revisited", ICML 2019) on the dev sentences: 1 for states that are equal up to rotation and scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from orchestrator.extras.layer_probing.layer_states import read_states, reading_of, states_at_every_depth
from trials.cache.encoding import encode_for
from trials.errors import ModelError
from trials.export import load_trained
from trials.hardware.device import default_device
from trials.models.adapters import merge_adapters
from trials.models.load import LoadedModel, load_model
from trials.prefix.rule import why_not_cut
from trials.seeding import torch_stream
from trials.spec import TrialSpec
from trials.tasks import TASKS


@dataclass(frozen=True)
class LayerDrift:
    """How far one part of the encoder moved; these are columns of `schema.DRIFTS`."""

    depth: int
    weight_change: float
    cka: float | None


def layer_drift(
    spec: TrialSpec,
    content: bytes,
    *,
    device: torch.device | None = None,
    done: Callable[[int, int], None] = lambda n, total: None,
) -> Iterator[LayerDrift]:
    """The drift of every part, from the embeddings up.

    Args:
        content: The weights of its best epoch, as `run_trial` keeps them.
        device: By default the first GPU, else the CPU.
        done: Is told how many of how many layers of examples have run.

    Raises:
        DataError, ModelError: as `export.load_trained`, or the encoder cannot be cut.
    """
    device, task, data = device or default_device(), TASKS[spec.task], encode_for(spec)
    if why := why_not_cut(spec, 1):
        raise ModelError(f"{spec.model.name}: its layers cannot be run one by one: {why}")
    trained = load_trained(spec, content).loaded
    if spec.lora is not None:
        merge_adapters(trained.model)
    init = torch_stream(0, "init")
    before = load_model(spec.model, head=task.head, n_outputs=len(data.labels), dropout=spec.dropout, init=init)
    reading, examples = reading_of(before, task.head), data.dev.examples
    for loaded in (before, trained):
        loaded.model.to(device)
    changes = [weight_change(old, new) for old, new in zip(_parts(before), _parts(trained), strict=True)]
    passed, total = 0, 2 * len(changes) * len(examples)

    def count(n: int) -> None:
        nonlocal passed
        passed += n
        done(passed, total)

    passes = (states_at_every_depth(spec, loaded, examples, device, count) for loaded in (before, trained))
    for change, *both in zip(changes, *passes, strict=True):
        old, new = (read_states(examples, at.states, reading) for at in both)
        yield LayerDrift(both[0].depth, change, linear_cka(old, new))


def _parts(loaded: LoadedModel) -> list[nn.Module]:
    return [loaded.parts.embeddings, *loaded.parts.encoder_layers]


def weight_change(old: nn.Module, new: nn.Module) -> float:
    """|W - W0| / |W0| over all parameters of a part."""
    pairs = [
        (a.detach().double().cpu(), b.detach().double().cpu())
        for a, b in zip(old.parameters(), new.parameters(), strict=True)
    ]
    moved = sum(float((b - a).pow(2).sum()) for a, b in pairs)
    return math.sqrt(moved / sum(float(a.pow(2).sum()) for a, _ in pairs))


def linear_cka(old: np.ndarray, new: np.ndarray) -> float | None:
    """Linear CKA of two sets of states (places, width); None where one of them is constant."""
    x, y = (states.astype(np.float64) - states.mean(axis=0, dtype=np.float64) for states in (old, new))
    scale = float(np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))
    return float(np.linalg.norm(x.T @ y) ** 2) / scale if scale > 0 else None

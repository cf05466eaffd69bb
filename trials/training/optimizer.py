"""The optimiser of a trial and its learning rates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from trials.errors import RefusedError
from trials.models.family import is_norm
from trials.models.load import LoadedModel
from trials.settings import OptimSpec


def new_optimizer(loaded: LoadedModel, optim: OptimSpec, *, capturable: bool = False) -> torch.optim.AdamW:
    """AdamW over the trained parameters, without decay on biases and norms, with the learning rates of each part.

    `capturable`: steps may be recorded as CUDA graphs; the learning rates are tensors that a recorded step reads.

    Raises:
        RefusedError: A trial of an earlier version, whose optimiser is gone.
    """
    if optim.embedding_updates == "lazy":
        raise RefusedError("optim.embedding_updates: `lazy` was removed. The trial can be read, but not trained again.")
    rates = {id(p): rate for modules, rate in part_rates(loaded, optim) for m in modules for p in m.parameters()}
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    for module in loaded.model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                decays = name != "bias" and not is_norm(module)
                groups.setdefault((rates[id(parameter)], decays), []).append(parameter)
    given = [
        {
            "params": parameters,
            "peak_lr": rate,
            "lr": torch.tensor(rate, device=parameters[0].device) if capturable else rate,
            "weight_decay": optim.weight_decay if decays else 0.0,
        }
        for (rate, decays), parameters in groups.items()
    ]
    return torch.optim.AdamW(given, lr=optim.lr, fused=True, capturable=capturable)


def part_rates(loaded: LoadedModel, optim: OptimSpec) -> list[tuple[Sequence[torch.nn.Module], float]]:
    """The peak learning rate of each part: the head's, then from layer to layer downwards times `layer_decay`."""
    parts, decay = loaded.parts, optim.layer_decay or 1.0
    below = [((layer,), optim.lr * decay**depth) for depth, layer in enumerate(reversed(parts.encoder_layers), start=1)]
    lowest = [((parts.embeddings,), optim.lr * decay ** (len(parts.encoder_layers) + 1))]
    return [(parts.head, optim.head_lr or optim.lr), *below, *lowest]


def lr_share(step: int, n_steps: int, warmup: float, schedule: str = "linear") -> float:
    """The fraction of the peak rate at a step (from 0): rising during warm-up, then falling to zero or constant."""
    n_warmup = math.ceil(warmup * n_steps)
    if step < n_warmup:
        return step / n_warmup
    return 1.0 if schedule == "constant" else (n_steps - step) / (n_steps - n_warmup)

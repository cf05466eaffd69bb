"""The best epoch of a trial: its weights, held until the end, and its results on dev and test."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import torch
from safetensors.torch import save

from trials.models.load import LoadedModel
from trials.training.loop import EvaluatedSplit


class BestEpoch:
    """The trained weights at the best dev score so far, the earliest of equal ones; test is evaluated with them.

    Attributes:
        dev: The evaluation on dev at that score.
        weights: Copies of the trained parameters; empty before the first evaluation.
        trained: The model's parameters that `weights` belong to.
    """

    dev: EvaluatedSplit

    def __init__(self, loaded: LoadedModel) -> None:
        self.trained = [p for p in loaded.model.parameters() if p.requires_grad]
        self.score = -math.inf
        self.weights: list[torch.Tensor] = []

    def update(self, score: float, dev: EvaluatedSplit) -> None:
        """Copy the model's weights if they score better than all before."""
        if score > self.score:
            if not self.weights:
                self.weights = [torch.empty_like(p) for p in self.trained]
            torch._foreach_copy_(self.weights, [p.detach() for p in self.trained])  # in place: never two copies
            self.score, self.dev = score, dev

    def replace(self, score: float, dev: EvaluatedSplit, weights: list[torch.Tensor]) -> None:
        """Set the best epoch, e.g. from a checkpoint."""
        self.score, self.dev = score, dev
        self.weights = [weight.to(p.device) for weight, p in zip(weights, self.trained, strict=True)]

    @torch.no_grad()
    def restore(self) -> None:
        """Copy the best weights back into the model."""
        for parameter, best in zip(self.trained, self.weights, strict=True):
            parameter.copy_(best)

    def to_bytes(self, names: Mapping[int, str], labels: Sequence[str]) -> bytes:
        """The best weights as a safetensors file, with the labels of the head.

        Args:
            names: The name of each parameter of the model, by its `id`.
            labels: The labels, in the order of the head's outputs.
        """
        tensors = {
            names[id(p)]: weight.to("cpu", copy=True).contiguous()
            for p, weight in zip(self.trained, self.weights, strict=True)
        }
        return save(tensors, {"labels": json.dumps(list(labels))})

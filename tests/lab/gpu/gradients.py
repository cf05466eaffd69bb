"""The gradient of a training step as the product takes it, against the change of the step's own loss.

A step is taken through the training's own stepper, so through the kernels, and the CUDA graph, that a trial would use;
the random numbers of dropout are the same each time. The learning rate is 0 and AdamW's first moment starts at 0, so
after a step it is the gradient times 1 - beta1, and nothing else has changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.lab.gpu.timing import cuda_graphs, training_of
from tests.lab.gpu.workload import changed
from trials.hardware.device import wait_for
from trials.spec import TrialSpec
from trials.training.batching import Batch
from trials.training.freeze_course import FreezeSchedule
from trials.training.loop import Training

SEED = 7
STEP = 0.02  # the length of a move of the weights; the loss's rounding is small beside what it changes
RECORDED = 3  # steps of a shape after which each one is a replay, where steps are CUDA graphs


@dataclass(frozen=True)
class StepGradient:
    """Of one batch.

    Attributes:
        loss: With the fixed random numbers.
        gradient: (values of all encoder layers,) flattened, on the CPU.
        numeric_share: The derivative of the loss along the gradient, from differences, over the gradient's length.
        graphs: Whether the step was a CUDA graph.
    """

    loss: float
    gradient: torch.Tensor
    numeric_share: float
    graphs: bool


def step_gradient(spec: TrialSpec, device: torch.device, *, graphs: bool = True) -> StepGradient:
    """Measure on a trial's first batch; its gradients are not clipped, and its precision should be fp32."""
    spec = changed(spec, optim={"max_grad_norm": None})
    with cuda_graphs(graphs):
        loaded, training = training_of(spec, device)
    FreezeSchedule(spec, training).train_to(0)
    loaded.model.train()
    weights = [p for layer in loaded.parts.encoder_layers for p in layer.parameters() if p.requires_grad]
    stepper, batch = _Stepper(training), next(training.device_batches)
    for _ in range(RECORDED if training.graphs else 1):  # the optimiser's state is made in the first
        stepper.loss(batch)
    loss, gradient = stepper.loss(batch), stepper.gradient(weights)
    length = float(torch.cat([g.flatten() for g in gradient]).norm())

    def slope(step: float) -> float:
        _move(weights, gradient, step / length)
        up = stepper.loss(batch)
        _move(weights, gradient, -2 * step / length)
        down = stepper.loss(batch)
        _move(weights, gradient, step / length)
        return (up - down) / (2 * step)

    numeric = (4 * slope(STEP / 2) - slope(STEP)) / 3  # Richardson's extrapolation: without the curvature's part
    flat = torch.cat([g.flatten().cpu() for g in gradient])
    return StepGradient(loss, flat, numeric / length, training.graphs)


class _Stepper:
    """Steps that change no weight."""

    def __init__(self, training: Training) -> None:
        self._training = training
        for group in training.optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].zero_()
            else:
                group["lr"] = 0.0
        self._take = training.stepper()

    def loss(self, batch: Batch) -> float:
        """Take a step with the fixed random numbers; returns its loss."""
        for state in self._training.optimizer.state.values():
            state["exp_avg"].zero_()
        torch.manual_seed(SEED)  # of all devices
        loss = self._take(batch)
        wait_for(self._training.device)
        return float(loss)

    def gradient(self, weights: list[torch.nn.Parameter]) -> list[torch.Tensor]:
        """Of the last step."""
        optimizer = self._training.optimizer
        share = 1 - optimizer.param_groups[0]["betas"][0]
        return [optimizer.state[weight]["exp_avg"] / share for weight in weights]


@torch.no_grad()
def _move(weights: list[torch.nn.Parameter], direction: list[torch.Tensor], by: float) -> None:
    for weight, towards in zip(weights, direction, strict=True):
        weight.add_(towards, alpha=by)

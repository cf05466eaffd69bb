"""Count the floating-point operations of training: those of matrix products, two for each multiplication and addition.

The products of a model are found by running it forward once on tiny inputs and watching what is called; which of them
need a gradient is what autograd says. A product has as many operations backward for each operand with a gradient as it
has forward: none for a frozen weight, none for inputs below the lowest trained part. Everything else (normalisation,
activations, the optimiser) is a small share and not counted, as usual (Kaplan et al. 2020, "Scaling laws for neural
language models"); neither is what a fused attention computes again in its backward pass. So the count is the same on
every device.

In a batch of `n` inputs of `length` subwords a product has n x length, n x length^2, n or a fixed number of rows, so
four tiny inputs determine the operations of any batch, padded or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from trials.training.batching import Batch

_SHAPES = ((1, 2), (1, 3), (1, 4), (2, 2))  # inputs, subwords


@dataclass(frozen=True)
class Flops:
    """Operations of a batch: fixed, plus an_input + length (a_subword + length a_pair) of each input."""

    fixed: float
    an_input: float
    a_subword: float
    a_pair: float

    def of_batch(self, lengths: Sequence[int]) -> float:
        """Operations (FLOPs) of a batch whose inputs have these lengths in subwords, padding included."""
        n, subwords, pairs = len(lengths), sum(lengths), sum(length**2 for length in lengths)
        return self.fixed + n * self.an_input + subwords * self.a_subword + pairs * self.a_pair


def count_flops(run: Callable[[int, int], object]) -> Flops:
    """The operations of what `run(n, length)` calls on `n` inputs of `length` subwords, forward and backward.

    `run` runs the forward pass only. Of the backward pass, the gradients of operands that require one are counted.
    """
    counted = []
    for shape in _SHAPES:
        with _Products() as products:
            run(*shape)
        counted.append(products.n_operations)
    # Four unknowns, four shapes: the solution is exact, and rounding removes what the solver's floats add.
    terms = [[1, n, n * length, n * length**2] for n, length in _SHAPES]
    coefficients = np.linalg.solve(np.array(terms, float), np.array(counted, float))
    return Flops(*np.round(coefficients).tolist())


def training_flops(model: nn.Module, like: Batch) -> Flops:
    """The operations of a training step on a batch, by the model's present gradients; leaves it in evaluation mode.

    `like` is a batch of the kind that is trained on: of ids or of states of frozen layers, with or without types.
    """
    model.eval()  # draws no dropout

    def run(n: int, length: int) -> None:
        model(**_blank(like, n, length).inputs)

    with torch.enable_grad():
        return count_flops(run)


def _blank(like: Batch, n: int, length: int) -> Batch:
    """`n` inputs of `length` subwords with the same keys as the inputs of a batch."""

    def zeros(tensor: torch.Tensor, *rest: int) -> torch.Tensor:
        return tensor.new_zeros(n, length, *rest)

    return Batch(
        ids=zeros(like.ids),
        mask=torch.ones_like(zeros(like.ids)),
        labels=zeros(like.labels),
        types=None if like.types is None else zeros(like.types),
        states=None if like.states is None else zeros(like.states, like.states.shape[-1]),
        square=like.square,
    )


class _Products(TorchFunctionMode):
    """Counts the operations of the matrix products called inside it.

    Attributes:
        n_operations: Forward, and backward as far as a gradient will flow.
    """

    def __init__(self) -> None:
        super().__init__()
        self.n_operations = 0

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _OPERANDS:
            for forward, operands in _OPERANDS[func](result, *args, **(kwargs or {})):
                # One product of the same size for each gradient: C = A B has dA = dC B' and dB = A' dC.
                backward = sum(operand.requires_grad for operand in operands) if torch.is_grad_enabled() else 0
                self.n_operations += forward * (1 + backward)
        return result


Product = tuple[int, Sequence[torch.Tensor]]  # operations forward, and what its backward pass may differentiate by


def _matmul(output: torch.Tensor, left: torch.Tensor, right: torch.Tensor, **unused: Any) -> list[Product]:
    return [(2 * output.numel() * left.shape[-1], (left, right))]


def _baddbmm(output: torch.Tensor, added: Any, left: torch.Tensor, right: torch.Tensor, **unused: Any) -> list[Product]:
    return _matmul(output, left, right)


def _linear(
    output: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor, *unused: Any, **more: Any
) -> list[Product]:
    return [(2 * output.numel() * weight.shape[-1], (inputs, weight))]


def _convolution(
    output: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor, *unused: Any, **more: Any
) -> list[Product]:
    return [(2 * output.numel() * math.prod(weight.shape[1:]), (inputs, weight))]


def _attention(
    output: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *unused: Any, **more: Any
) -> list[Product]:
    """Scores, and their weighted sum of values; the weights have a gradient if the query or the key has."""
    scores = 2 * query.numel() * key.shape[-2]
    weights = query if query.requires_grad else key
    return [(scores, (query, key)), (2 * output.numel() * key.shape[-2], (weights, value))]


_OPERANDS: dict[Any, Callable[..., list[Product]]] = {
    functional.linear: _linear,
    torch.ops.mkldnn._linear_pointwise: _linear,  # torch's own on AMD (`models.products`)
    torch.matmul: _matmul,
    torch.Tensor.matmul: _matmul,
    torch.Tensor.__matmul__: _matmul,
    torch.mm: _matmul,
    torch.bmm: _matmul,
    torch.Tensor.bmm: _matmul,
    torch.addmm: _baddbmm,
    torch.baddbmm: _baddbmm,
    functional.conv1d: _convolution,
    functional.conv2d: _convolution,
    functional.scaled_dot_product_attention: _attention,
}

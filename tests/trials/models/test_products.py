"""oneDNN's products in place of MKL's: the same numbers, forward and backward, whatever lies in memory how."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import linear

from trials.models import products
from trials.models.products import use_onednn

SIZES = st.integers(1, 150)


@pytest.fixture(scope="module", autouse=True)
def onednn() -> Iterator[None]:
    library = use_onednn()
    yield
    library._destroy()


@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_a_layer_and_its_gradients_are_those_of_64_bits(
    rows: int, inputs: int, outputs: int, biased: bool, transposed: bool
) -> None:
    generator = torch.Generator().manual_seed(rows * inputs + outputs)
    x, weight, bias = (
        torch.randn(size, generator=generator) for size in ((rows, inputs), (outputs, inputs), (outputs,))
    )
    x = x.t().contiguous().t() if transposed else x
    ours, exact = (
        [tensor.detach().to(dtype).requires_grad_() for tensor in (x, weight, bias)]
        for dtype in (torch.float32, torch.float64)
    )
    for tensors in (ours, exact):
        linear(tensors[0], tensors[1], tensors[2] if biased else None).square().sum().backward()
    for own, other in zip(ours[: 2 + biased], exact, strict=False):
        assert own.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(own.grad, other.grad.float(), rtol=1e-4, atol=1e-2)


def test_operands_may_lie_in_memory_as_they_like() -> None:
    generator = torch.Generator().manual_seed(0)
    a, square = torch.randn(100, 128, generator=generator), torch.randn(256, 256, generator=generator)
    for b in (square[:128, ::2], square[::2, ::2], square[:128, 5:133], square[:1, :128].expand(128, 128)):
        torch.testing.assert_close(a @ b, (a.double() @ b.double()).float(), rtol=1e-4, atol=1e-3)
        for bias in (square[0, :128], square[0, ::2], square[0, :1].expand(128), square[0, :1], square[:100, :128]):
            sum_of_both = (bias.double() + a.double() @ b.double()).float()
            torch.testing.assert_close(torch.addmm(bias, a, b), sum_of_both, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_large_products_of_32_bits_only_are_onednns(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    onednn = Mock(wraps=products._linear)
    monkeypatch.setattr(products, "_linear", onednn)
    large, small = torch.ones(128, 128, dtype=dtype), torch.ones(8, 8, dtype=dtype)
    assert bool((large @ large == 128).all())
    assert bool((small @ small == 8).all())
    assert bool((torch.addmm(large, large, large, beta=2, alpha=3) == 386).all())
    assert onednn.call_count == (dtype == torch.float32)

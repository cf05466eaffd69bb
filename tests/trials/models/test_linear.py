"""Linear layers by oneDNN give what torch's own give."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from trials.models.linear import OneDnnLinear, use_fastest

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


def pair(n_in: int, n_out: int, *, bias: bool = True) -> tuple[nn.Linear, nn.Linear]:
    plain = nn.Linear(n_in, n_out, bias=bias)
    fast = copy.deepcopy(plain)
    fast.__class__ = OneDnnLinear
    return plain, fast


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    n_in=st.integers(1, 40),
    n_out=st.integers(1, 40),
    bias=st.booleans(),
    transposed=st.booleans(),
)
def test_outputs_and_gradients_are_torchs_own(
    shape: list[int], n_in: int, n_out: int, bias: bool, transposed: bool
) -> None:
    plain, fast = pair(n_in, n_out, bias=bias)
    x = torch.randn(*shape, n_in)
    if transposed:
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    given_grad = torch.randn(*shape, n_out)
    found = []
    for layer in (plain, fast):
        leaf = x.clone().requires_grad_()
        layer(leaf).backward(given_grad)
        found.append([leaf.grad, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(fast(x), plain(x), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)


def test_what_is_frozen_gets_no_gradient() -> None:
    _, fast = pair(3, 2)
    fast.requires_grad_(False)
    x = torch.randn(4, 3, requires_grad=True)
    fast(x).sum().backward()
    assert fast.weight.grad is None
    assert fast.bias.grad is None
    assert x.grad is not None


def test_without_gradients_the_same_bits_come_out() -> None:
    _, fast = pair(16, 8)
    x = torch.randn(2, 5, 16)
    with torch.inference_mode():
        assert torch.equal(fast(x), fast(x.clone()))
    torch.testing.assert_close(fast(x).detach(), torch.no_grad()(fast)(x), atol=0, rtol=0)


def test_bf16_is_left_to_autocast() -> None:
    plain, fast = pair(16, 8)
    x = torch.randn(5, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fast(x).dtype is torch.bfloat16
        assert torch.equal(fast(x), plain(x))


def test_double_precision_is_left_to_torch() -> None:
    plain, fast = pair(4, 4)
    x = torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(fast.double()(x), plain.double()(x))


def test_a_layer_of_another_class_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trials.models.linear._onednn_is_faster", lambda: True)
    own = type("Own", (nn.Linear,), {})
    model = nn.Sequential(nn.Linear(2, 2), own(2, 2))
    use_fastest(model)
    assert [type(m) for m in model] == [OneDnnLinear, own]

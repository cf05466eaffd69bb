"""Matrix products on AMD's processors with AVX-512, where oneDNN is at least twice as fast as MKL.

torch multiplies 32-bit floats with MKL, which runs its code for AVX2 on processors that are not Intel's. oneDNN, which
torch carries too, uses AVX-512 on all of them: 190 to 230 against 60 to 100 GFLOP/s for the layers of a small encoder,
forward and backward, on one core of an EPYC (Zen 5) with torch 2.13. Both round as 32-bit floats do.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import torch
from torch.nn.functional import pad

LEAST_STEP = 64  # between sizes that are multiplied; batches have any number of tokens
LEAST_PRODUCTS = 1 << 20  # multiplications below which the way through Python costs more than it saves


@cache
def use_fastest_products() -> torch.library.Library | None:
    """From now on this process multiplies large matrices with oneDNN, where that is faster; None where it is not."""
    return use_onednn() if mkl_is_slow() else None


def mkl_is_slow(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this is an AMD processor with AVX-512. Not measured, so that all runs of a machine round alike."""
    try:
        is_amd = "AuthenticAMD" in cpuinfo.read_text(encoding="utf-8")
    except OSError:
        return False
    has_onednn = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return is_amd and has_onednn and torch.backends.cpu.get_cpu_capability() == "AVX512"


def use_onednn() -> torch.library.Library:
    """Replace torch's kernels of a product, and of a product and a bias, until the library that is returned ends."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        library.impl("mm", _mm, "CPU")
        library.impl("addmm", _addmm, "CPU")
    return library


def _mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if _is_large(a, b):
        return _linear(a, b)
    return torch.mm(a, b, out=a.new_empty(a.shape[0], b.shape[1]))  # with `out` it is torch's own kernel


def _addmm(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: complex = 1, alpha: complex = 1
) -> torch.Tensor:
    is_row = bias.shape == b.shape[1:] and bias.is_contiguous() and bias.dtype == b.dtype  # oneDNN looks at neither
    if is_row and beta == alpha == 1 and _is_large(a, b):
        return _linear(a, b, bias)
    return torch.addmm(bias, a, b, beta=beta, alpha=alpha, out=a.new_empty(a.shape[0], b.shape[1]))


def _is_large(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype == torch.float32 and a.shape[0] * b.numel() >= LEAST_PRODUCTS


def _linear(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The product by oneDNN, filled up with zeros to few sizes: for each it compiles code, 0.5 ms and a MB or more."""
    rows, inner = a.shape
    more_rows, more_inner = _missing(rows), _missing(inner)
    if more_rows or more_inner:
        a = pad(a, (0, more_inner, 0, more_rows))
    if more_inner:
        b = pad(b, (0, 0, 0, more_inner))
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise.default(a, b.t(), bias, "none", [], "")
    return product[:rows]


def _missing(size: int) -> int:
    """By how much a size falls short of the next padded size; there are eight of these up to each power of two."""
    return -size % max(LEAST_STEP, 1 << max(size.bit_length() - 4, 0))

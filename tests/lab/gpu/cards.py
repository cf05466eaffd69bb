"""Published rates of cards: dense bf16 products with accumulation in fp32.

From NVIDIA's data sheets, which give twice as much "with sparsity" for cards from 2020 on: A100 (312), H100 SXM, PCIe
and NVL (1,979, 1,513 and 1,671 with sparsity), H200 SXM (1,979), L4 (242), L40S (733), A10 (125 without).
"""

from __future__ import annotations

TERA = 1e12
_DENSE_BF16 = {  # the first whose words are all in the card's name
    ("H200", "NVL"): 1671 / 2,
    ("H200",): 1979 / 2,
    ("H100", "NVL"): 1671 / 2,
    ("H100", "PCIe"): 1513 / 2,
    ("H100",): 1979 / 2,
    ("A100",): 312,
    ("L40S",): 733 / 2,
    ("L4",): 242 / 2,
    ("A10",): 125,
}


def published_flops(name: str) -> float | None:
    """Operations a second of the card of this name, None if it is not listed."""
    words = name.replace("-", " ").split()
    for wanted, rate in _DENSE_BF16.items():
        if all(word in words for word in wanted):
            return rate * TERA
    return None

"""Nested train subsets: the first `size` of one random order, so that 200 sentences are inside 800."""

from __future__ import annotations

import numpy as np

from trials.seeding import numpy_stream


def nested_subset(n: int, size: int, seed: int) -> np.ndarray:
    """Indices (size,) of a train subset of `n` sentences; under one seed a smaller one begins a larger one."""
    assert 0 < size <= n, f"a subset of {size} of {n}"
    return numpy_stream(seed, "subset").permutation(n)[:size]

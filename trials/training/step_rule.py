"""How steps and evaluations are batched, and whether steps may be replayed, without torch: forecasts read it too."""

from __future__ import annotations

import os

EVAL_BATCH = 64  # examples of an evaluation, sorted by length
LENGTH_WINDOW = 16  # batches; it pads EWT to 1.15 times its subwords, random batches pad it to 2.3 to 2.6 times
GPU_LENGTHS = 16  # padded batches on a GPU, and of recorded steps, have a multiple of so many subwords: few shapes
RESIDENT_BYTES = 1 << 30  # for one split on a GPU: half a million sentences of 128 subwords, 350,000 states 768 wide

GRAPHS_VARIABLE = "PERMAFROST_CUDA_GRAPHS"


def graphs_are_off() -> bool:
    """Whether the environment turns CUDA graphs off."""
    return os.environ.get(GRAPHS_VARIABLE) == "0"

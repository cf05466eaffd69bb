"""How long something takes beside a peer, measured in turns in the same process: no other load decides a test."""

from __future__ import annotations

import time
from collections.abc import Callable


def times_of(work: Callable[[], object], peer: Callable[[], object], turns: int = 5) -> float:
    """How many times the processor time of the peer the work takes, each at its best."""
    best = [float("inf"), float("inf")]
    for _ in range(turns):
        for i, function in enumerate((work, peer)):
            began = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - began)
    return best[0] / best[1]

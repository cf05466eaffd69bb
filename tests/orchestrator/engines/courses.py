"""What every engine passes: trials that end in each way that an engine can meet, and how they are stored."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from orchestrator.execution.trial_queue import Listed
from orchestrator.store import ResultStore
from tests.builders import make_record
from trials.errors import DivergedError, PreemptedError
from trials.record import EpochRecord
from trials.spec import TrialSpec

PRUNED = 6  # the seed of the trial that its source ends
EXPECTED = {
    0: ("completed", 1),
    1: ("completed", 2),
    2: ("diverged", 1),
    3: ("completed", 2),
    4: ("failed", 1),
    5: ("completed", 2),
    PRUNED: ("pruned", 1),
}


class Ending(Listed):
    """Ends one trial after its first record."""

    def evaluated(self, spec: TrialSpec, record: EpochRecord) -> bool:
        return spec.seed != PRUNED


def course(spec: TrialSpec, number: int, accumulation: int) -> Iterator[EpochRecord]:
    """Two epochs; after the first, what the seed says."""
    yield make_record(epoch=1.0, last=False)
    if spec.seed == 1 and number == 1:
        raise ConnectionError("the disk does not answer")
    if spec.seed == 2:
        raise DivergedError("the training loss is nan")
    if spec.seed == 3 and accumulation == 1:
        raise torch.OutOfMemoryError("CUDA out of memory.")
    if spec.seed == 4:
        raise KeyError("a bug")
    if spec.seed == 5 and number == 1:
        raise PreemptedError("its machine is taken away")
    yield make_record(epoch=2.0)


def ends_in(store: ResultStore) -> dict[int, tuple[str, int]]:
    """State and number of the newest attempt of each trial, by seed."""
    return {row["seed"]: (row["state"], row["attempt"]) for row in store.trials().to_pylist()}

"""A worker's life in a process of its own: trials of the starter model one after the other, its memory after each.

python -m tests.trials.hardware.worker_life TREEBANK N_TRIALS
"""

from __future__ import annotations

import json
import sys
from itertools import cycle, islice
from pathlib import Path

import torch

from trials.draft import Lookup, TrialDraft
from trials.hardware.device import MemoryLevel, release_free_memory, resident_bytes
from trials.run import run_trial
from trials.spec import TrialSpec

FREEZES = ("none", {"strategy": "first_k", "depth": 4, "embeddings": True}, "all_encoder")


def trial_of(treebank: Path, freeze: object, n: int) -> TrialSpec:
    """Two steps; the sizes differ, so that so do the shapes of the batches."""
    return TrialDraft.model_validate({
        "data": {"folder": str(treebank)}, "freeze": freeze, "train_size": 16 + n % 8, "seed": n, "lowercase": True,
        "optim": {"batch_size": 16, "epochs": 1},
    }).resolve(Lookup(offline=True))  # fmt: skip


def main(treebank: Path, n_trials: int) -> None:
    """Print as JSON what the process took after its trials, and whether memory came back.

    `megabytes` are resident after each trial, `held_megabytes` after every tenth once free memory is given back: the
    first may rise up to where the worker gives back by itself, the second may not.
    """
    torch.set_num_threads(1)
    specs = [trial_of(treebank, freeze, n) for n, freeze in islice(enumerate(cycle(FREEZES)), n_trials)]
    level, megabytes, held, settled = MemoryLevel(), list[int](), list[int](), list[bool]()
    for spec in specs:
        assert len(list(run_trial(spec))) == 1
        settled.append(level.settle())
        megabytes.append(resident_bytes() >> 20)
        if len(megabytes) % 10 == 0:
            release_free_memory()
            held.append(resident_bytes() >> 20)
    found = {"megabytes": megabytes, "held_megabytes": held, "settled": all(settled)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

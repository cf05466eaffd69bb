"""The process that runs pilots: it reads one spec per line from stdin and writes one line of JSON for each to stdout.

python -m orchestrator.forecast.pilot_worker 1 cpu '[[], {}]' < specs.jsonl
"""

from __future__ import annotations

import json
import sys

import torch

from trials.hardware.device import device_for
from trials.plugins.loading import LoadedPlugins
from trials.record import EpochRecord
from trials.run import run_trial
from trials.spec import TrialSpec


def measure(spec: TrialSpec, device: torch.device) -> dict[str, float]:
    """Seconds of a pilot: set-up of its first epoch, training and evaluation of its last. Raises as a trial does."""
    records: list[EpochRecord] = list(run_trial(spec, device=device, predictions="none"))
    first, last = records[0], records[-1]
    return {
        "setup_s": first.setup_s,
        "train_s": last.train_s,
        "eval_s": last.eval_s,
    }


def main(threads: int, *, gpu: bool) -> None:
    """Read specs from stdin and write the seconds of each to stdout as soon as it ends."""
    torch.set_num_threads(threads)
    device = device_for(float(gpu))
    specs = [TrialSpec.model_validate_json(line) for line in sys.stdin if line.strip()]
    for spec in specs:
        sys.stdout.write(f"{json.dumps(measure(spec, device))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    LoadedPlugins.of_json(sys.argv[3]).load()
    main(int(sys.argv[1]), gpu=sys.argv[2] == "gpu")

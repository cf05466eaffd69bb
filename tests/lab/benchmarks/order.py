"""Run one small sweep twice, in its order and in reverse, and compare what freezing saves.

python -m tests.lab.benchmarks.order --seeds 5

Each run has a store and a cache of its own, so other trials compute the states of frozen layers that all share. The
savings must not depend on that: counted operations are equal, and the intervals of training time overlap.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from orchestrator.analysis.savings import FLOPS, savings
from orchestrator.analysis.trial_frame import trial_frame
from orchestrator.execution.recorder import Recorder
from orchestrator.store import ResultStore
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from trials.draft import Lookup
from trials.record import TRAINING_COST
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.state import State

SWEEP = """
name: order
trial:
  task: pos
  model: starter
  frozen_dropout: false
  optim: {{lr: 1.0e-3, epochs: 3}}
space:
  data: [{{folder: {treebank}, first: {{dev: 100, test: 0}}}}]
  train_size: [{size}]
  freeze: [none, {{strategy: first_k, depth: 2, embeddings: true}}, {{strategy: first_k, depth: 4, embeddings: true}}]
seeds: {seeds}
"""
TREEBANK = Path(__file__).parents[3] / "trials" / "starter" / "treebanks" / "UD_English-EWT-sample"


def planned(folder: Path, size: int, seeds: int) -> list[TrialSpec]:
    """The trials of the sweep in its order: all seeds of a setting, then the next setting."""
    path = folder / "order.yaml"
    path.write_text(SWEEP.format(treebank=TREEBANK, size=size, seeds=list(range(seeds))), encoding="utf-8")
    return expand(*load_sweep(path, []), Lookup(offline=True))


def run(specs: Sequence[TrialSpec], folder: Path) -> ResultStore:
    """Run trials one after the other into a store, with an empty cache."""
    os.environ["PERMAFROST_CACHE"] = str(folder / "cache")
    store = ResultStore(folder / "store")
    recorder = Recorder(store)
    for spec in specs:
        recorder.started(spec, 1)
        for record in run_trial(spec, device=torch.device("cpu")):
            recorder.evaluated(spec, record)
        recorder.ended(spec, State.COMPLETED, None)
    recorder.close()
    return store


def saved(specs: Sequence[TrialSpec], store: ResultStore) -> pd.DataFrame:
    """What each setting saves, by cost and freeze, with `paid_s`, the seconds that its trials spent on states."""
    rows = store.trials().to_pylist()
    frame = trial_frame(specs, rows)
    paid = pd.Series({row["trial_id"]: row["prefix_paid_s"] for row in rows})
    table = savings(frame, [FLOPS, TRAINING_COST])
    names = frame.drop_duplicates("cell").set_index("cell")["freeze"]
    sums = paid[frame["trial_id"]].groupby(frame["cell"].to_numpy()).sum()
    return table.assign(freeze=table["cell"].map(names), paid_s=table["cell"].map(sums)).set_index(["cost", "freeze"])


def main() -> int:
    """Print both tables; 1 if they contradict each other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--train-size", type=int, default=400)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        specs = planned(Path(scratch), args.train_size, args.seeds)
        folders = [Path(scratch) / name for name in ("forward", "reverse")]
        orders = [specs, specs[::-1]]
        one, other = (saved(specs, run(order, folder)) for order, folder in zip(orders, folders, strict=True))
    agrees = True
    for key in one.index:
        a, b = one.loc[key], other.loc[key]
        same = a["low"] <= b["high"] and b["low"] <= a["high"]
        agrees = agrees and bool(same)
        for name, row in (("in order", a), ("reversed", b)):
            ends = f"{100 * row['saved']:.1f} % ({100 * row['low']:.1f} to {100 * row['high']:.1f})"
            sys.stdout.write(f"{key[0]:16} {key[1]:10} {name}: {ends}, paid {row['paid_s']:.2f} s for states\n")
    sys.stdout.write("the intervals overlap\n" if agrees else "the intervals do not overlap\n")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())

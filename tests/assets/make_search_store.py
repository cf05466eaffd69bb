"""Makes `tests/assets/search_store`: a finished store of configs/sweeps/starter_search.yaml, small enough for git.

permafrost launch --sweep configs/sweeps/starter_search.yaml --store FINISHED      # some 80 minutes on two cores
python -m tests.assets.make_search_store FINISHED NEW_FOLDER

Every trial and every evaluation is kept, with the per-tag counts that a whole store has. Left out are the losses of
single steps, which no search asks for. Files are named without their folders, which are no part of a trial's identity.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec

SOURCE = "configs/sweeps/starter_search.yaml"
Row = dict[str, Any]


def make(finished: ResultStore, made: ResultStore) -> None:
    """Write the one from the other. Raises ValueError: not all that was planned is complete."""
    (plan,) = finished.sweeps()
    if left := {trial_id for trial_id, _ in plan.trials} - finished.completed_ids():
        raise ValueError(f"{finished.address}: {len(left)} of {len(plan.trials)} trials are not complete")
    made.append("epochs", [row | {"step_losses": None} for row in finished.epochs().to_pylist()])
    made.append("tags", finished.tags().to_pylist())
    made.append("trials", [_trial(row) for row in finished.trials().to_pylist()])
    made.add_plan(_plan(plan))


def without_folders(spec: Mapping[str, Any], trial_id: str) -> dict[str, Any]:
    """A spec as JSON values whose files have bare names: still that of the same trial."""
    data, model = dict(spec["data"]), dict(spec["model"])
    for split in ("train", "dev", "test"):
        data[split] = [PurePath(path).name for path in data[split]]
    found = {**spec, "data": data, "model": model | {"path": PurePath(model["path"]).name}}
    assert stored_spec(found, trial_id).trial_id == trial_id
    return found


def _trial(row: Row) -> Row:
    assert row["state"] == State.COMPLETED
    return row | {"spec": json.dumps(without_folders(json.loads(row["spec"]), row["trial_id"]), separators=(",", ":"))}


def _plan(plan: SweepPlan) -> SweepPlan:
    trials = tuple((trial_id, without_folders(spec, trial_id)) for trial_id, spec in plan.trials)
    return replace(plan, source=SOURCE, trials=trials)


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("finished", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args(argv)
    make(open_store(args.finished), open_store(args.folder, must_exist=False))


if __name__ == "__main__":
    main()

"""Makes `tests/assets/search_store`: a finished store of configs/sweeps/starter_search.yaml, small enough for git.

permafrost launch --sweep configs/sweeps/starter_search.yaml --store FINISHED      # some 80 minutes on two cores
python -m tests.assets.make_search_store FINISHED NEW_FOLDER

python -m tests.assets.make_search_store --again tests/assets/search_store NEW_FOLDER

The second form keys a store to the bundled encoder and samples as they are now, whose digests are part of a trial's
identity. Its numbers stay those measured with the files of then (200 dev sentences a sample, of which the sweep reads
150), in batches of like length: what searches are compared on is a table of scores, not the encoder.

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
from orchestrator.store.stored_specs import stored_spec
from orchestrator.store.sweep_plans import SweepPlan
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from trials.draft import Lookup
from trials.spec import TrialSpec
from trials.state import State

SOURCE = "configs/sweeps/starter_search.yaml"  # from the root of the checkout
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


def key_again(old: ResultStore, made: ResultStore) -> None:
    """Write the one from the other, with the ids that the trials of the sweep have now."""
    spec, document = load_sweep(Path(__file__).parents[2] / SOURCE, [])
    now = expand(spec, document, Lookup(offline=True))
    (plan,) = old.sweeps()
    ids: dict[str, str] = {}
    specs: dict[str, dict[str, Any]] = {}
    for (trial_id, was), is_now in zip(plan.trials, now, strict=True):
        content, before, then = is_now.model_dump(mode="json"), stored_spec(was, trial_id), as_recorded(is_now)
        assert (before.freeze, before.optim, before.seed) == (then.freeze, then.optim, then.seed), trial_id
        ids[trial_id] = is_now.trial_id
        specs[trial_id] = without_folders(content, is_now.trial_id)
    made.append("epochs", [row | {"trial_id": ids[row["trial_id"]]} for row in old.epochs().to_pylist()])
    made.append("tags", [row | {"trial_id": ids[row["trial_id"]]} for row in old.tags().to_pylist()])
    texts = {trial_id: json.dumps(content, separators=(",", ":")) for trial_id, content in specs.items()}
    trials = old.trials().to_pylist()
    made.append("trials", [row | {"spec": texts[row["trial_id"]], "trial_id": ids[row["trial_id"]]} for row in trials])
    made.add_plan(replace(plan, trials=tuple((ids[i], specs[i]) for i, _ in plan.trials)))


def as_recorded(spec: TrialSpec) -> TrialSpec:
    """A trial of the sweep as the store has it: its embeddings were updated by rows, as earlier versions could."""
    content = spec.model_dump()
    return TrialSpec.model_validate({**content, "optim": {**content["optim"], "embedding_updates": "lazy"}})


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
    parser.add_argument("--again", action="store_true", help="key a store to the bundled files as they are now")
    args = parser.parse_args(argv)
    (key_again if args.again else make)(open_store(args.finished), open_store(args.folder, must_exist=False))


if __name__ == "__main__":
    main()

"""The files of a store: whichever is broken, all that reads it is asked."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dashboards.data.frames import Frames
from orchestrator.claims import running_drivers
from orchestrator.claims.holder import this_process
from orchestrator.commands.status_command import status
from orchestrator.execution.rerun import find_trial
from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.repair import repair
from orchestrator.search.kinds import source_of
from orchestrator.search.kinds.kind import PlanInStore
from orchestrator.storage.storage import FolderStorage, NewerError
from orchestrator.store import ResultStore, open_store
from orchestrator.store.contents import COMMIT_ORDER
from orchestrator.store.sweep_plans import SweepPlan
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import make_plan
from tests.builders import make_spec, write_sweep
from tests.lab.fuzz.kind import Kind
from tests.lab.fuzz.mutations import mutated_checkpoint, mutated_json, mutated_parquet
from tests.orchestrator.store.rows import complete
from trials.draft import Lookup
from trials.errors import CheckpointError, DataError, DivergedError
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.checkpoint import Checkpoints
from trials.training.checkpoint_times import CheckpointTimes

CPU = torch.device("cpu")
SEARCH = """
name: searched
trial: {data: {folder: BANK}}
space: {freeze: [none, {strategy: first_k, depth: {int_uniform: [1, layers]}}], optim.lr: {log_uniform: [1e-5, 1e-2]}}
search: {kind: tpe, cells: 3}
"""
ONE = """
name: one
trial: {data: {folder: BANK}, train_size: 4, optim: {epochs: 2, batch_size: 2}, freeze: {strategy: first_k, depth: 5}}
"""


def store_kinds(folder: Path) -> dict[str, Kind]:
    """Its files; whichever is broken, all of the store is read."""
    specs = [make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 2}) for seed in range(3)]
    ids = [spec.trial_id for spec in specs]
    store = open_store(folder, must_exist=False)
    for spec in specs:
        complete(store, spec, **_FIGURES)
    store.compact()
    plan = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in specs)
    store.add_plan(SweepPlan("tiny", 1.0, "tiny.yaml", plan))
    kinds = {"store.json": Kind(folder / "store.json", lambda: _read_store(folder, ids[0]), _mutated_marker)}
    for table in COMMIT_ORDER:
        (part,) = (folder / table).iterdir()  # without the digest in its name, by which it would be refused unread
        part = part.rename(part.with_name("part-00000000000000000001-0123abcd.parquet"))
        kinds[f"{table} part"] = Kind(part, lambda: _read_store(folder, ids[0]), mutated_parquet)
    (plan_file,) = (folder / "sweeps" / "tiny").iterdir()
    plan_file = plan_file.rename(plan_file.with_name("plan-00000000000000000001-0123abcd.json"))
    plan_kind = Kind(plan_file, lambda: _read_store(folder, ids[0]), mutated_json)
    return kinds | {"plan": plan_kind, **_beside(folder), **_searched(folder.parent), **_kept(folder.parent)}


_FIGURES: dict[str, Any] = {
    "task": "pos", "corpus": "tiny", "device": "cpu", "train_s": 2.0, "total_params": 1000, "trainable_params": 250,
}  # fmt: skip


def _read_store(folder: Path, trial_id: str) -> None:
    """Everything that is read of a store, and the commands that show it; first what verifies and repairs it."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        check_store(copy)
        with contextlib.suppress(NewerError):
            repair(FolderStorage(Path(copy)))
            assert not check_store(copy).needs_repair
            _show(open_store(copy))
    _show(open_store(folder))
    find_trial(open_store(folder), trial_id)


def _show(store: ResultStore) -> None:
    folder = store.address
    Frames(store).refresh()
    for table in (store.trials(), store.epochs(), store.tags(), store.predictions(), store.contributions()):
        table.validate(full=True)
        table.to_pylist()
    store.completed_ids(), store.attempts(), store.sweeps()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status(str(folder), debug=True)
        status(str(folder), as_json=True, debug=True)
        status(str(folder), each_trial=True, debug=True)


def _mutated_marker(rng: random.Random, content: bytes) -> bytes | None:
    """Another marker, or none."""
    return None if rng.random() < 0.2 else mutated_json(rng, content)


def _beside(folder: Path) -> dict[str, Kind]:
    """What else a launch leaves there: that it runs."""
    store = open_store(folder)
    presence = folder / "drivers" / f"{'0' * 16}-00000001-shares.json"
    store.storage.at("drivers").write(presence.name, this_process("tiny").as_json())
    claim = folder / "claims" / f"{'1' * 16}-000001.json"
    store.storage.at("claims").create(claim.name, json.dumps({"driver": "0" * 16}).encode())

    def driver() -> None:
        running_drivers(store.storage)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            status(str(folder), debug=True)

        check_store(folder)
        Frames(store).refresh()

    return {
        "presence": Kind(presence, driver, mutated_json),
        "claim": Kind(claim, driver, mutated_json),
    }


def _searched(folder: Path) -> dict[str, Kind]:
    """What a search decided: a suggested cell, a promotion and an early stop."""
    sweep, document = load_sweep(write_sweep(folder / "searched.yaml", SEARCH.replace("BANK", f"{folder}/bank")), [])
    store, lookup = ResultStore(folder / "searched"), Lookup(offline=True)
    source_of(PlanInStore(make_plan(sweep, document, store, lookup), store)).next()
    (decided,) = (folder / "searched" / "sweeps" / "searched").glob("decided-*")
    content = json.loads(decided.read_bytes())
    content["decisions"] = [
        {"decision": 1, "time_ns": 1, "promoted": "0123abcd", "beyond": 1.0},
        {"decision": 2, "time_ns": 2, "stopped": "0123abcd"},
    ]
    decided.unlink()
    suggested = decided.with_name("suggested-00000000000000000001-0123abcd.json")
    suggested.write_text(json.dumps(content), encoding="utf-8")

    def read() -> None:
        make_plan(sweep, document, store, lookup)
        store.decision_log(sweep.name)

    return {"suggestion": Kind(suggested, read, mutated_json)}


def _kept(folder: Path) -> dict[str, Kind]:
    """A checkpoint, from which its trial goes on."""
    (spec,) = expand(
        *load_sweep(write_sweep(folder / "kept.yaml", ONE.replace("BANK", f"{folder}/bank")), []), Lookup()
    )
    file = _File(folder / "kept" / "checkpoint")
    file.path.parent.mkdir()
    list(run_trial(spec, device=CPU, checkpoints=Checkpoints(file, CheckpointTimes(epochs=1))))
    return {"checkpoint": Kind(file.path, lambda: _gone_on(spec, file), mutated_checkpoint)}


def _gone_on(spec: TrialSpec, file: _File) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two that wait for each other take seconds where the machine has other work
    try:
        records = list(run_trial(spec, device=CPU, checkpoints=Checkpoints(file)))
    except (CheckpointError, DivergedError) as error:  # the trial ends in order
        raise DataError(str(error)) from error
    finally:
        torch.set_num_threads(threads)
    assert [record.step for record in records] == [2, 4], "other evaluations than those of the trial"


@dataclass
class _File:
    """Keeps a trial in one file."""

    path: Path

    def load(self) -> bytes | None:
        return self.path.read_bytes() if self.path.exists() else None

    def save(self, step: int, content: bytes) -> None:
        self.path.write_bytes(content)

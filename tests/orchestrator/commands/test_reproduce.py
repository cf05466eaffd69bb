"""The command `reproduce` on a real trial, run twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from orchestrator.commands.app import app
from orchestrator.store import ResultStore, open_store


@pytest.fixture
def store(trained: ResultStore, tmp_path: Path) -> ResultStore:
    """A copy, to be tampered with."""
    return open_store(shutil.copytree(trained.root, tmp_path / "results"))


def reproduce(trial_id: str, store: ResultStore, *words: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", trial_id, "--store", str(store.root), *words])


def first_trial(store: ResultStore) -> dict[str, Any]:
    row: dict[str, Any] = store.trials().to_pylist()[0]
    return row


def tamper(store: ResultStore, **changes: Any) -> dict[str, Any]:
    """Commit the last evaluation of the first trial again, with other numbers."""
    row: dict[str, Any] = [r for r in store.epochs().to_pylist() if r["trial_id"] == first_trial(store)["trial_id"]][-1]
    store.append("epochs", [row | changes])
    return row


def test_a_trial_comes_out_the_same_to_the_bit_and_leaves_the_store_alone(trained: ResultStore) -> None:
    before = sorted(trained.root.rglob("*"))
    trial_id = first_trial(trained)["trial_id"]
    done = reproduce(trial_id[:8], trained)
    assert done.exit_code == 0, done.output
    assert done.stdout == "bit-identical: every number of 2 evaluations.\n"
    assert f"_{trial_id[:6]}, 1 thread; recorded on cpu" in done.stderr
    assert done.stderr.count("epoch   ") == 2
    assert sorted(trained.root.rglob("*")) == before


def test_a_number_that_was_changed_is_named(store: ResultStore) -> None:
    row = tamper(store, score=0.125)
    done = reproduce(row["trial_id"], store)
    assert done.exit_code == 1
    assert (
        f"1 number differs in 2 evaluations; the score differs by at most {100 * (row['score'] - 0.125):.2e} points"
        in done.stdout
    )
    assert f"first: score at step {row['step']}, stored 0.125, now {row['score']}." in done.stdout


def test_json_lists_every_difference(store: ResultStore) -> None:
    row = tamper(store, dev_loss=1.0, step_losses=[1.0])
    done = reproduce(row["trial_id"], store, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["same"], found["trial_id"]) == (1, False, row["trial_id"])
    assert [d["column"] for d in found["differences"]] == ["step_losses", "dev_loss"]
    assert found["differences"][0]["stored"] == [1.0]
    assert found["differences"][0]["found"] == row["step_losses"]
    assert found["differences"][1] == {
        "step": row["step"], "column": "dev_loss", "stored": 1.0, "found": row["dev_loss"],
    }  # fmt: skip


def test_other_versions_of_the_packages_are_told(store: ResultStore) -> None:
    row = first_trial(store)
    store.append("trials", [row | {"versions": [("torch", "1.0"), ("python", "3.0")]}])
    done = reproduce(row["trial_id"], store)
    assert done.exit_code == 0
    assert "note    torch was 1.0 when recorded and is " in done.stderr
    assert "note    python was 3.0 when recorded and is " in done.stderr

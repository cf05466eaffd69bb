"""The commands of `permafrost store`: what they print, their exit codes, and that none works beside a driver."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from orchestrator.commands.app import app
from orchestrator.extras.store_care.exports import ABOUT, dictionary
from orchestrator.storage.storage import Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.schema import TABLES
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.store.real import Real
from tests.orchestrator.store.rows import complete, epoch, plan_of, spoil

FIRST, SECOND = (make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 2}) for seed in range(2))


@pytest.fixture
def store(storage: Storage) -> ResultStore:
    """Two completed trials in parts of their own, and what their sweep declared."""
    found = open_store(storage.address, must_exist=False)
    complete(found, FIRST)
    complete(found, SECOND)
    found.add_plan(plan_of(FIRST, SECOND))
    return found


def command(*words: object, group: str = "store") -> Result:
    return CliRunner().invoke(app, [group, *map(str, words)])


def export_tables(*words: object) -> Result:
    return command("tables", *words, group="export")


def test_each_finding_is_a_line_and_the_exit_code_is_1(store: ResultStore) -> None:
    name = spoil(store.storage, "tags")
    done = command("verify", "--store", store.address)
    assert done.exit_code == 1
    assert done.stdout.startswith(f"{name}: not a readable Parquet file (its bytes do not match the digest in its name")
    assert f"\ntrial {FIRST.trial_id}: attempt 1 is completed, but 0 of 4 rows of tags are there" in done.stdout
    assert done.stdout.endswith("2 problems. The same launch runs again what is lost.\n")
    found = json.loads(command("verify", "--store", store.address, "--json").stdout)
    assert (found["store"], found["ok"], found["findings"][0]["place"]) == (store.address, False, name)
    assert found["states"] == {"completed": 2}


@each("words", [["verify"], ["verify", "--json"]])
def test_where_there_is_no_store_the_exit_code_is_3(words: list[str], tmp_path: Path) -> None:
    done = command(*words, "--store", tmp_path / "none")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "no store there" in done.stderr
    assert list(tmp_path.iterdir()) == []


def exported(store: Path, folder: Path, suffix: str) -> Path:
    done = export_tables(folder, "--format", suffix, "--store", store)
    assert done.exit_code == 0, done.output
    assert f"{folder / 'epochs'}.{suffix}  " in done.stdout
    return folder


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_column_a_metric_lists_as_json_and_numbers_to_the_bit(real: Real, tmp_path: Path) -> None:
    out = exported(real.store, tmp_path, "csv")
    rows, wanted = cells(out / "trials.csv"), open_store(real.store).trials().to_pylist()
    assert [float(row["best_score"]) for row in rows] == [row["best_score"] for row in wanted]
    accuracies = [dict(row["best_metrics"])["accuracy"] for row in wanted]
    assert [float(row["best_metrics.accuracy"]) for row in rows] == accuracies
    assert json.loads(rows[0]["freeze_layers"]) == [0, 1, 2, 3]
    assert (rows[0]["freeze_embeddings"], rows[0]["error"]) == ("true", "")
    sentences = cells(out / "predictions.csv")
    assert len(sentences) == 32
    assert all(len(json.loads(row["forms"])) == len(json.loads(row["gold"])) for row in sentences)


def test_csv_has_times_in_utc_and_null_in_lists_for_what_is_no_number(real: Real, tmp_path: Path) -> None:
    store = ResultStore(real.copy(tmp_path))
    store.append("epochs", [epoch("0" * 16, step_losses=[float("inf"), 1.0])])
    odd, *rows = cells(exported(store.root, tmp_path / "out", "csv") / "epochs.csv")
    assert json.loads(odd["step_losses"]) == [None, 1.0]
    for row, wanted in zip(rows, open_store(real.store).epochs().to_pylist(), strict=True):
        assert json.loads(row["step_losses"]) == wanted["step_losses"]
        assert datetime.fromisoformat(row["time"]) == wanted["time"]


def test_parquet_has_all_types(real: Real, tmp_path: Path) -> None:
    out, store = exported(real.store, tmp_path, "parquet"), open_store(real.store)
    assert pq.read_table(out / "tags.parquet").equals(store.tags())
    assert pq.read_table(out / "predictions.parquet").equals(store.predictions())
    assert len(list(out.iterdir())) == len(TABLES) + 1  # the description of columns


def test_nothing_is_written_over(store: ResultStore, tmp_path: Path) -> None:
    (tmp_path / "tags.csv").write_text("mine")
    done = export_tables(tmp_path, "--store", store.address)
    assert (done.exit_code, (tmp_path / "tags.csv").read_text()) == (4, "mine")
    assert f"{tmp_path / 'tags.csv'}: already exists. Give another folder." in done.stderr


def test_every_column_has_its_line_in_the_dictionary() -> None:
    assert ABOUT.keys() == TABLES.keys()
    lines = dictionary().splitlines()
    n = sum(line.startswith("| `") and line.endswith(". |") for line in lines)
    assert n == sum(len(schema.names) for schema in TABLES.values())

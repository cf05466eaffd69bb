"""Names and ids from a command line, a store or a listing are looked up; none leads out of its folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from dashboards.commands.report import report
from orchestrator.commands.model_commands import export_model
from orchestrator.commands.status_command import status
from orchestrator.extras.store_care.check import check_store
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan
from orchestrator.store.schema import stamped_name
from tests.builders import expanded, make_spec, write_sweep, write_treebank
from tests.examples import each
from tests.orchestrator.store.rows import prediction, trial
from trials.errors import ConfigError, PermafrostError, StoreError
from trials.sources.cache import read_manifest, write_manifest

NAMES = ("../evil", "../../evil", "/evil", "a/b", "a/../../evil", "..", ".", "a\\..\\evil", "%2e%2e/evil", "~/evil")


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, and every folder, to see that reading changed nothing."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """A store, below a folder that nothing else may change, with a trial that may be run again."""
    spec = make_spec()
    store = open_store(tmp_path / "inside" / "store", must_exist=False)
    figures = {"best_score": 0.5, "train_s": 2.0, "total_params": 10, "trainable_params": 5, "device": "cpu"}
    store.append("trials", [trial(spec.trial_id, spec=spec.model_dump_json()) | figures])
    store.append("predictions", [prediction(spec.trial_id)])
    return store


@each("name", [*NAMES, "", "a\0b", "-x", "_x", "x" * 81, "a b", "$(id)"])
def test_a_sweep_of_such_a_name_is_refused(name: str, tmp_path: Path) -> None:
    bank = write_treebank(tmp_path / "bank")
    path = write_sweep(tmp_path / "s.yaml", f"name: {json.dumps(name)}\ntrial: {{data: {{folder: {bank}}}}}\n")
    with pytest.raises(ConfigError, match=r"s\.yaml:1: "):
        expanded(path)


@each("name", NAMES)
def test_a_corpus_of_such_a_name_is_refused_or_stays_a_word(name: str, tmp_path: Path) -> None:
    bank = write_treebank(tmp_path / "bank")
    data = f"{{folder: {bank}, name: {json.dumps(name)}}}"
    path = write_sweep(tmp_path / "s.yaml", f"name: a\ntrial: {{data: {data}}}\n")
    if name in (".", ".."):  # of letters that a name may have, and no part of a path
        assert expanded(path)[0].label.startswith(f"{name}_")
        return
    with pytest.raises(ConfigError, match=r"s\.yaml:2: trial\.data\.name"):
        expanded(path)


@each("trial_id", [*NAMES, "zz", "*", "' OR 1=1"])
def test_a_trial_of_such_an_id_is_looked_up_and_not_found(
    trial_id: str, store: ResultStore, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(store.root.parents[1])
    with pytest.raises(typer.Exit) as ended:
        export_model(trial_id, store.root.parent / "model", store.address)
    assert ended.value.exit_code == 5
    assert f"no trial {trial_id!r} in {store.address}" in capsys.readouterr().err
    assert contents(store.root.parents[1]) == before


@pytest.mark.parametrize("name", ["../../evil", "/evil", ".."])
def test_a_plan_of_such_a_name_is_said_and_no_command_follows_it(
    name: str, store: ResultStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = make_spec()
    store.add_plan(SweepPlan("tiny", 1.0, "s.yaml", ((spec.trial_id, spec.model_dump(mode="json")),)))
    (plan,) = (store.root / "sweeps" / "tiny").iterdir()
    forged = json.dumps(json.loads(plan.read_text()) | {"name": name, "source": name}).encode()
    plan.unlink()
    (plan.parent / stamped_name("plan", 1, forged, "json")).write_bytes(forged)  # by its own digest, so that it is read
    before = contents(tmp_path)
    status(store.address, as_json=True)
    assert json.loads(capsys.readouterr().out)["sweeps"] == []
    for sweep in (None, name):
        with pytest.raises(typer.Exit) as ended:
            report(store.address, sweep)
        assert ended.value.exit_code == 5
    wrong = f"not a readable plan ({name!r} is not the sweep of its folder)"
    assert wrong in [found.wrong for found in check_store(store.storage).findings]
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["../evil", "/evil", "..", "", "a/b", "a\0b"])
def test_no_call_of_a_storage_follows_such_a_name(name: str, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "store")
    for call in (storage.subfolder, storage.exists, storage.open, storage.read, storage.delete):
        with pytest.raises(StoreError, match="is not the plain name of a file"):
            call(name)
    for write in (storage.write, storage.create):
        with pytest.raises(StoreError, match="is not the plain name of a file"):
            write(name, b"x")
    assert contents(tmp_path) == {}


@each("name", ["../evil", "../../evil", "/evil", "a/b", "..", ".", ""])
def test_a_plan_of_such_a_name_is_not_written(name: str, store: ResultStore) -> None:
    before = contents(store.root.parents[1])
    with pytest.raises(PermafrostError, match="is not a valid name of a sweep"):
        store.add_plan(SweepPlan(name, 1.0, "s.yaml", ()))
    assert contents(store.root.parents[1]) == before


@each("name", ["../outside.jsonl", "/outside.jsonl", "..", "a/../../outside.jsonl", "train\n.jsonl"])
def test_a_manifest_that_leads_out_of_its_folder_is_none(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for path in (folder / "train.jsonl", tmp_path / "outside.jsonl"):
        path.write_text("{}\n")
    assert (
        write_manifest(folder, name="a", kind="hub", source="hub:a/b@0", licence=None, files=["train.jsonl"])
        is not None
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][0]["name"] = name
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert read_manifest(folder) is None


@each("path", ["a\0b", "x" * 5_000, "~nosuchuser/results", "results," + "x" * 5_000])
def test_a_store_at_no_possible_path_is_one_line_and_exit_code_2(path: str) -> None:
    with pytest.raises(ConfigError, match="not a path") as refused:
        open_store(path)
    assert (refused.value.exit_code, str(refused.value).count("\n")) == (2, 0)

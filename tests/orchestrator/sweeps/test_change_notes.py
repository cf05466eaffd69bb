"""A plan says why trials of the last launch are not used again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.plan import make_plan
from orchestrator.sweeps.sweep import load_sweep
from tests.builders import write_sweep, write_treebank
from tests.trials.conftest import save_tiny_model
from trials.draft import Lookup

LATER = 4e9  # as a time of a file


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    write_treebank(tmp_path / "tiny")
    save_tiny_model("distilbert", tmp_path / "model", positions=128)
    text = "trial: {data: tiny, model: model, optim: {lr: 1e-3}}\nspace: {freeze: [none, all_encoder]}\nseeds: [0, 1]"
    return write_sweep(tmp_path / "s.yaml", text)


@pytest.fixture
def store(tmp_path: Path, sweep: Path) -> ResultStore:
    store = open_store(tmp_path / "results", must_exist=False)
    store.create()
    store.add_plan(make_plan(*load_sweep(sweep, []), store, Lookup(offline=True)).declared())
    return store


def notes(sweep: Path, store: ResultStore, *settings: str) -> list[str]:
    plan = make_plan(*load_sweep(sweep, list(settings)), store, Lookup(offline=True))
    return [note for note in plan.notes if "last launch" in note]


def test_nothing_is_said_where_nothing_changed_or_trials_were_added(sweep: Path, store: ResultStore) -> None:
    assert notes(sweep, store) == notes(sweep, store, "seeds=[1,2]") == notes(sweep, store, "name=other") == []


def test_a_file_that_changed_is_named(sweep: Path, store: ResultStore, tmp_path: Path) -> None:
    (train,) = (tmp_path / "tiny").glob("*train*")
    train.write_text(train.read_text() * 2)
    os.utime(train, (LATER, LATER))
    said = f"{train.name} changed since the last launch, so the 4 trials of before cannot be used again."
    assert notes(sweep, store) == notes(sweep, store, "trial.optim.lr=1e-4") == [said]


def test_files_with_an_old_time_are_told_by_their_corpus(sweep: Path, store: ResultStore, tmp_path: Path) -> None:
    (dev,) = (tmp_path / "tiny").glob("*dev*")
    dev.write_text(dev.read_text() * 2)
    os.utime(dev, (0, 0))
    assert notes(sweep, store)[0].startswith("tiny changed since the last launch")


def test_another_folder_of_the_same_name_is_told(sweep: Path, store: ResultStore, tmp_path: Path) -> None:
    bank = write_treebank(tmp_path / "other/tiny")
    (train,) = bank.glob("*train*")
    train.write_text(train.read_text() * 3)
    assert notes(sweep, store, f"trial.data={bank}")[0].startswith("tiny: its files are others than in the last launch")


def test_a_model_that_changed_is_named(sweep: Path, store: ResultStore, tmp_path: Path) -> None:
    save_tiny_model("distilbert", tmp_path / "model", positions=64)
    assert notes(sweep, store, "trial.max_length=32")[0].startswith("model model: its files changed since")


def test_settings_that_no_trial_shares_any_more_are_named(sweep: Path, store: ResultStore) -> None:
    (note,) = notes(sweep, store, "trial.optim.lr=2e-3", "trial.lowercase=true")
    assert "optim.lr was 0.001, is 0.002" in note
    assert "lowercase was False, is True" in note

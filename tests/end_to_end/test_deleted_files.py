"""What is deleted while a sweep runs is reported as what it is: a store, a model, a corpus, the cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.store import open_store
from tests.end_to_end.conftest import Here
from trials.cache import encoding
from trials.models import load
from trials.starter import model_path
from trials.tasks import task_corpus

FEW = ("--cluster", "inline", "--set", "seeds=[0]", "--set", "trial.optim.epochs=1", "--set", "space.freeze=[none]")


def delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # a heartbeat may come between


def after_the_first_commit(
    monkeypatch: pytest.MonkeyPatch, store: Path, *folders: Path, act: Callable[[Path], object] = delete
) -> None:
    """Delete folders when the first trial is in the store, and what is in memory."""
    flush, left = Recorder.flush, [*folders]

    def flushed(recorder: Recorder) -> None:
        flush(recorder)
        if (store / "commits").exists() and left:
            while left:
                act(left.pop())
            for cached in (load._template, load.load_tokenizer, encoding._encode, task_corpus._read):
                cached.cache_clear()

    monkeypatch.setattr(Recorder, "flush", flushed)
    monkeypatch.setattr(Recorder, "tick", flushed)  # without waiting for its second


def test_a_store_that_is_deleted_is_gone_and_not_made_again(
    sweep: Path, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    after_the_first_commit(monkeypatch, store, store)
    done = here("launch", "--sweep", sweep, "--store", store, *FEW)
    assert done.exit_code == 3
    assert "store: the store is gone; it was deleted or moved while this driver ran." in done.stderr
    assert "the 1 trial committed there is lost" in done.stderr
    assert "intact" not in done.stderr
    assert not list(store.rglob("*"))
    assert not store.exists()


def test_trials_of_a_model_that_is_deleted_fail_with_its_path(
    sweep: Path, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, model = tmp_path / "store", shutil.copytree(model_path(), tmp_path / "model")
    after_the_first_commit(monkeypatch, store, model)
    words = ("--sweep", sweep, "--store", store, *FEW, "--set", f"trial.model={model}")
    assert here("launch", *words).exit_code == 1
    check_failures(store, f"{model}: the model's folder is not there any more. Put it back")


def check_failures(store: Path, said: str) -> None:
    errors = [row["error"] for row in open_store(store).trials().to_pylist() if row["state"] == "failed"]
    assert errors
    assert all(said in error and "Traceback" not in error for error in errors)


def test_a_cache_that_is_deleted_is_made_again(
    sweep: Path, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    encoding._encode.cache_clear()
    after_the_first_commit(monkeypatch, tmp_path / "store", tmp_path / "cache")
    assert here("launch", "--sweep", sweep, "--store", tmp_path / "store", *FEW).exit_code == 0
    assert list((tmp_path / "cache" / "tokens").iterdir())

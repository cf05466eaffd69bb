"""Searches and schedules on real trials: launched again they go on as if nothing had happened, inline and on Ray."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import ResultStore, open_store
from orchestrator.store.contents import read_table
from orchestrator.store.decisions import Choice
from tests.builders import write_sweep, write_tagged_treebank
from tests.end_to_end.conftest import TIMES, Command, Here
from tests.examples import first
from trials.state import State

pytestmark = pytest.mark.timeout(280)

TRIAL = """
trial:
  model: starter
  data: {folder: one}
  max_length: 16
  lowercase: true
  frozen_dropout: false
  optim: {lr: 1e-3, batch_size: 8, epochs: 4}
"""
SPACE = "space:\n  freeze: [none, {strategy: first_k, depth: {int_uniform: [4, layers]}, embeddings: true}]\n"
TPE = f"""{TRIAL}{SPACE}  optim.lr: {{log_uniform: [1e-4, 1e-2]}}
search: {{kind: tpe, cells: 6, startup: 2}}
seeds: [0, 1]
"""
GRID = f"{TRIAL}{SPACE}  optim.lr: [1e-4, 1e-3]\nseeds: [0, 1]\n"
ASHA = GRID + "schedule: {kind: asha, first: 1, factor: 2}\n"
BOTH = TPE + "schedule: {kind: asha, first: 1, factor: 2}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tagged_treebank(tmp_path / "one", train=24, dev=8)
    return tmp_path


def sweep(folder: Path, text: str, name: str = "search") -> Path:
    return write_sweep(
        folder / f"{name}.yaml", f"{text.replace('folder: one', f'folder: {folder}/one')}\nname: search\n"
    )


def rows(store: ResultStore) -> list[dict[str, Any]]:
    kept = [name for name in store.epochs().column_names if name not in {*TIMES, "attempt"}]
    found: list[dict[str, Any]] = store.epochs().select(kept).to_pylist()
    return found


def choices(store: ResultStore) -> list[Choice]:
    return [one.choice for one in store.decisions("search")]


def is_kept(store: Path) -> bool:
    return any((store / "checkpoints").glob("*"))


def states(store: ResultStore) -> dict[str, str]:
    found = store.trials(["state"]).to_pylist()
    return {row["trial_id"]: row["state"] for row in found}


@pytest.mark.parametrize("text", first(1, [TPE, ASHA]), ids=["tpe", "asha"])
def test_a_search_that_was_cut_goes_on_as_if_it_had_not_been(folder: Path, here: Here, text: str) -> None:
    text = text.replace("cells: 6", "cells: 4").replace("[1e-4, 1e-3]", "[1e-3]")  # eight trials, of a tpe four
    if "asha" not in text:  # no rung to reach
        text = text.replace("epochs: 4", "epochs: 1").replace("seeds: [0, 1]", "seeds: [0]")
    shared = ("--sweep", sweep(folder, text), "--cluster", "inline", "--store")
    whole = here("launch", *shared, folder / "whole")
    for n in ("2", "1"):
        assert here("launch", *shared, folder / "cut", "--max-trials", n).exit_code == 143
        assert is_kept(folder / "cut") == ("asha" in text)  # paused trials will go on from where they are
    cut = here("launch", *shared, folder / "cut")
    assert (whole.exit_code, cut.exit_code) == (0, 0), cut.stderr
    stores = open_store(folder / "whole"), open_store(folder / "cut")
    assert choices(stores[0]) == choices(stores[1])
    assert rows(stores[0]) == rows(stores[1])
    assert states(stores[0]) == states(stores[1])
    assert not is_kept(folder / "cut")


@pytest.mark.cluster  # without Ray, in threads: orchestrator/search/test_shared_search.py
def test_two_launches_of_a_search_share_it_and_decide_once(folder: Path, permafrost: Command, here: Here) -> None:
    words = ("launch", "--sweep", sweep(folder, BOTH), "--store", folder / "s", "--cluster", "local")
    with ThreadPoolExecutor(2) as pool:
        done = [future.result() for future in [pool.submit(permafrost, *words) for _ in range(2)]]
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    found = [[line for line in one.stdout.splitlines() if line.startswith("best")] for one in done]
    assert found[0] == found[1] != []
    store = open_store(folder / "s")
    ended = read_table(store.storage.at("trials"), "trials").rows.select(["trial_id", "attempt"]).to_pylist()
    assert len({tuple(row.values()) for row in ended}) == len(ended)
    assert set(states(store).values()) <= {State.COMPLETED, State.PRUNED}
    assert not is_kept(folder / "s")
    assert here("store", "verify", "--store", folder / "s").exit_code == 0
    before = states(store)
    again = here(*words)
    assert "nothing to do: " in again.stderr
    assert states(store) == before
    kinds = {name.partition("-")[0] for name in store.storage.at("sweeps").at("search").files()}
    assert kinds <= {"plan", "suggested"}  # no decision in an object of its own


@pytest.mark.cluster
def test_on_ray_a_paused_trial_goes_on_to_the_same_bits_and_nothing_is_left_running(
    folder: Path, permafrost: Command, here: Here
) -> None:
    done = permafrost("launch", "--sweep", sweep(folder, ASHA), "--store", folder / "ray")
    assert done.returncode == 0, done.stderr
    store = open_store(folder / "ray")
    ended = Counter(states(store).values())
    assert set(ended) == {State.COMPLETED, State.PRUNED}
    assert ended.total() == 16
    assert not any((folder / "ray" / "checkpoints").glob("*"))
    assert "best    " in done.stdout
    assert here("store", "verify", "--store", folder / "ray").exit_code == 0
    grid = here("launch", "--sweep", sweep(folder, GRID, "grid"), "--store", folder / "grid", "--cluster", "inline")
    assert grid.exit_code == 0, grid.stderr
    complete = {trial_id for trial_id, state in states(store).items() if state == State.COMPLETED}
    whole = {(row["trial_id"], row["epoch"]): row for row in rows(open_store(folder / "grid"))}
    resumed = [row for row in rows(store) if row["trial_id"] in complete]
    assert len(resumed) == 4 * len(complete) > 0
    assert resumed == [whole[row["trial_id"], row["epoch"]] for row in resumed]
    again = permafrost("launch", "--sweep", sweep(folder, ASHA), "--store", folder / "ray")
    assert "nothing to do: all trials that this sweep needs are complete in the store" in again.stderr


@pytest.mark.slow
def test_a_search_on_the_store_of_a_finished_grid_runs_none_of_its_trials(folder: Path, here: Here) -> None:
    store = open_store(folder / "s", must_exist=False)
    assert (
        here("launch", "--sweep", sweep(folder, GRID), "--store", store.address, "--cluster", "inline").exit_code == 0
    )
    grid = rows(store)
    asha = here("launch", "--sweep", sweep(folder, ASHA), "--store", store.address, "--cluster", "inline")
    assert asha.exit_code == 0, asha.stderr
    assert "best    " in asha.stdout
    assert rows(store) == grid

"""Searches and schedules on real trials: launched again they go on as if nothing had happened, inline and on Ray."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator.claims import Membership, Timing, hold_search
from orchestrator.store import ResultStore, open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.end_to_end.conftest import TIMES, Command, Here
from tests.examples import first
from trials.record import State

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
    cut = here("launch", *shared, folder / "cut")
    assert (whole.exit_code, cut.exit_code) == (0, 0), cut.stderr
    stores = open_store(folder / "whole"), open_store(folder / "cut")
    assert stores[0].suggestions("search") == stores[1].suggestions("search")
    assert rows(stores[0]) == rows(stores[1])
    assert states(stores[0]) == states(stores[1])
    assert not is_kept(folder / "cut")


def test_a_second_launch_of_a_search_is_refused_in_one_line(folder: Path, here: Here) -> None:
    store = open_store(folder / "s", must_exist=False)
    store.create()
    with Membership(store.storage, "search", say=print, timing=Timing(beat_s=0.2)) as membership:
        hold_search(store.storage, membership, "search")
        second = here("launch", "--sweep", sweep(folder, TPE), "--store", folder / "s", "--cluster", "inline")
    assert second.exit_code == 3
    (line,) = [line for line in second.stderr.splitlines() if "One driver at a time can have a search" in line]
    assert "runs sweep search there since" in line
    assert rows(store) == []


@pytest.mark.cluster
def test_on_ray_a_stopped_trial_leaves_nothing_and_the_others_have_the_bits_of_a_grid(
    folder: Path, permafrost: Command, here: Here
) -> None:
    done = permafrost("launch", "--sweep", sweep(folder, ASHA), "--store", folder / "ray")
    assert done.returncode == 0, done.stderr
    store = open_store(folder / "ray")
    ended = Counter(states(store).values())
    assert set(ended) == {State.COMPLETED, State.PRUNED}
    assert ended.total() == 16
    assert not is_kept(folder / "ray")
    assert "best    " in done.stdout
    assert here("store", "verify", "--store", folder / "ray").exit_code == 0
    grid = here("launch", "--sweep", sweep(folder, GRID, "grid"), "--store", folder / "grid", "--cluster", "inline")
    assert grid.exit_code == 0, grid.stderr
    whole = {(row["trial_id"], row["epoch"]): row for row in rows(open_store(folder / "grid"))}
    assert [whole[row["trial_id"], row["epoch"]] for row in rows(store)] == rows(store)
    again = permafrost("launch", "--sweep", sweep(folder, ASHA), "--store", folder / "ray")
    assert "all trials that this sweep needs are complete in the store; none runs" in again.stderr

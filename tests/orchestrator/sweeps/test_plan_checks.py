"""What a plan checks and tells: a search that cannot work is refused, and why earlier trials are not used again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan, make_plan
from tests.builders import write_sweep, write_treebank
from tests.examples import each
from tests.trials.conftest import save_tiny_model
from trials.draft import Lookup
from trials.errors import ConfigError

FIRST_2, LAST_3 = "{strategy: first_k, depth: 2}", "{strategy: last_k, depth: 3}"
SEEDS, GOAL = "seeds: [0, 1, 2]\n", "goal: {choose_depth: {tolerance: 1}}"
DEPTHS = f"space: {{freeze: [none, all_encoder]}}\n{SEEDS}"
HEAD = "name: s\ntrial: {data: DATA, optim: {epochs: 4}}\n"


def planned(path: Path) -> Plan:
    sweep, document = load_sweep(path, [])
    return make_plan(sweep, document, ResultStore(path.parent / "store"), Lookup(offline=True))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_treebank(tmp_path_factory.mktemp("data") / "tiny", train=100)


def written(folder: Path, data: Path, text: str) -> Path:
    """A sweep's file."""
    path = folder / "s.yaml"
    path.write_text(HEAD.replace("DATA", str(data)) + text, encoding="utf-8")
    return path


def refusal(folder: Path, data: Path, text: str) -> list[str]:
    path = written(folder, data, text)
    with pytest.raises(ConfigError) as raised:
        planned(path)
    return [problem.removeprefix(f"{path}:") for problem in raised.value.problems]


def test_packages_of_an_extra_are_missed_by_the_plan(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("optuna", "peft"):
        monkeypatch.setitem(sys.modules, package, None)
    (search,) = refusal(tmp_path, data, "space: {optim.lr: {log_uniform: [1e-4, 1e-3]}}\nsearch: {kind: tpe, cells: 2}")
    assert search.endswith("search: `search: tpe` needs optuna, which is not installed. Run: pip install "
                           "'permafrost-sweeps[search]'")  # fmt: skip
    (lora,) = refusal(tmp_path, data, "space: {lora: [{rank: 4}]}")
    assert "`lora` needs peft" in lora


@each(
    "text, said",
    [
        (
            "search: {kind: tpe, cells: 3, objective: macro_f2}",
            "3: search.objective: unknown 'macro_f2', did you",
        ),
        (
            "search: {kind: tpe, cells: 3, objective: test_score}",
            "3: search.objective: test_score: a search sel",
        ),
        ("search: {kind: tpe}", "3: search: `cells: N` is required with"),
        ("space: {train_size: [50, 100]}\nschedule: asha", "4: schedule: asha ranks cells by score, but these belong"),
        ("space: {train_size: [50, 100]}\nsearch: {kind: tpe, cells: 8}", "4: search: tpe ranks cells by score"),
        (
            "schedule: {kind: asha, first: 4}",
            "3: schedule.first: 4 epochs cover every trial completely (at most 4).",
        ),
        (f"{DEPTHS}{GOAL}\nschedule: asha", "5: goal: schedule and goal exclude each other, as each decides"),
        (f"{DEPTHS}{GOAL}\nsearch: {{kind: tpe, cells: 3}}", "5: goal: needs all cells from the start, but"),
        (SEEDS + GOAL, "4: goal.choose_depth: has no freeze to choose."),
        (f"space: {{freeze: [all_encoder]}}\n{SEEDS}{GOAL}", "5: goal.choose_depth: needs a baseline"),
        (f"space: {{freeze: [none, all_encoder], optim.lr: [1e-3, 1e-4]}}\n{SEEDS}{GOAL}", "needs one baseline"),
        (f"space: {{freeze: [none, {FIRST_2}, {LAST_3}]}}\n{SEEDS}{GOAL}", "does not freeze all that first 2 does"),
        (f"space: {{freeze: [none, all_encoder]}}\n{GOAL}", "4: goal.choose_depth: needs at least 3 seeds, but the"),
        (
            f"space: {{cases: [{{freeze: none, init_seed: 5}}, {{freeze: all_encoder}}]}}\n{SEEDS}{GOAL}",
            "5: goal: compares cells under the same seeds, but `init_seed` or `order_seed` differ between cells.",
        ),
        (
            "space: {init_seed: [1, 2]}\nsearch: {kind: tpe, cells: 2}",
            "`init_seed` and `order_seed` make replicates, not settings that `search: tpe` can choose",
        ),
        (
            "space: {freeze.depth: {int_uniform: [7, layers]}, freeze.strategy: [first_k]}",
            "3: space.freeze.depth: int_uniform: [7, layers]: the model has only 6 layers.",
        ),
    ],
)
def test_an_impossible_search_is_reported_in_one_message(tmp_path: Path, data: Path, text: str, said: str) -> None:
    (problem,) = refusal(tmp_path, data, text)
    assert said in problem


def test_a_depth_beyond_the_layers_of_one_of_two_models_is_reported_at_its_line(tmp_path: Path, data: Path) -> None:
    save_tiny_model("distilbert", tmp_path / "small", positions=128)
    freeze = "[none, {strategy: first_k, depth: 6}]"
    (problem,) = refusal(tmp_path, data, f"space:\n  model: [starter, {tmp_path / 'small'}]\n  freeze: {freeze}\n")
    assert problem.startswith("5: space.freeze[1].depth: 6 is not a depth of first_k in model 'small' of 4 layers")


# --- A plan says why trials of the last launch are not used again.


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
    store.add_plan(make_plan(*load_sweep(sweep, []), store, Lookup(offline=True)).stored_plan())
    return store


def notes(sweep: Path, store: ResultStore, *settings: str) -> list[str]:
    plan = make_plan(*load_sweep(sweep, list(settings)), store, Lookup(offline=True))
    return [note for note in plan.notes if "last launch" in note]


def test_nothing_is_said_where_nothing_changed_or_trials_were_added(sweep: Path, store: ResultStore) -> None:
    assert notes(sweep, store) == notes(sweep, store, "seeds=[1,2]") == notes(sweep, store, "name=other") == []


def test_files_with_an_old_time_and_another_folder_are_told_by_their_corpus(
    sweep: Path, store: ResultStore, tmp_path: Path
) -> None:
    bank = write_treebank(tmp_path / "other/tiny", train=24)
    assert notes(sweep, store, f"trial.data={bank}")[0].startswith("tiny: its files are others than in the last launch")
    (dev,) = (tmp_path / "tiny").glob("*dev*")
    dev.write_text(dev.read_text() * 2)
    os.utime(dev, (0, 0))
    assert notes(sweep, store)[0].startswith("tiny changed since the last launch")


def test_a_model_that_changed_and_settings_that_no_trial_shares_any_more_are_named(
    sweep: Path, store: ResultStore, tmp_path: Path
) -> None:
    (note,) = notes(sweep, store, "trial.optim.lr=2e-3", "trial.lowercase=true")
    assert "optim.lr was 0.001, is 0.002" in note
    assert "lowercase was False, is True" in note
    save_tiny_model("distilbert", tmp_path / "model", positions=64)
    assert notes(sweep, store, "trial.max_length=32")[0].startswith("model model: its files changed since")

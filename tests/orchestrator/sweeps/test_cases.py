"""Settings that vary together: each case is laid over the trial, and its mistakes have their place in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.sweeps.search_spec import points_of
from orchestrator.sweeps.sweep import load_sweep
from tests.builders import expanded, write_sweep, write_texts, write_treebank
from tests.examples import each
from trials.errors import ConfigError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a treebank `bank` and a table `texts`."""
    write_treebank(tmp_path / "bank")
    write_texts(tmp_path / "texts")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(here: Path, text: str) -> Path:
    return write_sweep(here / "s.yaml", text)


def problems(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as error:
        expanded(path)
    return [problem.removeprefix(f"{path}") for problem in error.value.problems]


TWO = """
space:
  cases:
    - {task: pos, data: {folder: bank}}
    - {task: sst2, data: {folder: texts}, optim.lr: 1e-3, train_size: 8}
"""


def test_each_case_is_laid_over_the_trial_and_crossed_with_the_other_axes(here: Path) -> None:
    path = sweep(here, "trial: {optim: {epochs: 3}}" + TWO + "  freeze: [none, all_encoder]\nseeds: [0, 1]\n")
    found = [(s.task, s.data.name, s.optim.lr, s.train_size, s.freeze.label, s.seed) for s in expanded(path)]
    assert found == [
        (*case, freeze, seed)
        for case in (("pos", "bank", 5e-5, 8), ("sst2", "texts", 1e-3, 8))
        for freeze in ("none", "all")
        for seed in (0, 1)
    ]
    assert {spec.optim.epochs for spec in expanded(path)} == {3}


def test_random_cells_draw_cases_too(here: Path) -> None:
    path = sweep(here, TWO + "  dropout: {uniform: [0, 0.5]}\nsearch: {kind: random, cells: 20, seed: 1}\n")
    specs = expanded(path)
    assert len(specs) == 20
    assert {spec.task for spec in specs} == {"pos", "sst2"}


def test_a_mistake_in_a_case_is_placed_at_its_key(here: Path) -> None:
    path = sweep(here, TWO.replace("task: sst2", "task: sst3").replace("1e-3", "-1"))
    assert [":".join(problem.split(":")[:3]) for problem in sorted(problems(path))] == [
        ":5: space.cases[1].optim.lr",
        ":5: space.cases[1].task",
    ]


def test_a_file_that_is_absent_is_placed_at_its_case(here: Path) -> None:
    (problem,) = problems(sweep(here, TWO.replace("folder: bank", "folder: bonk")))
    assert problem.startswith(":4: space.cases[0].data: no folder ")


def test_a_contradiction_within_a_case_is_placed_at_its_key(here: Path) -> None:
    path = sweep(here, "space:\n  cases:\n    - {data: {folder: bank}, thaw_every: 1, freeze: none}\n")
    (problem,) = problems(path)
    assert problem.startswith(":3: space.cases[0].thaw_every: nothing is frozen")


def test_a_freeze_and_what_goes_with_it_vary_together(here: Path) -> None:
    path = sweep(
        here,
        "trial: {data: {folder: bank}}\nspace:\n  cases:\n    - {freeze: none}\n"
        "    - {freeze: {strategy: first_k, depth: 2}, thaw_every: 1}\n    - {lora: {rank: 4}}\n",
    )
    specs = expanded(path)
    assert [(s.freeze.label, s.thaw_every, s.lora is not None) for s in specs] == [
        ("none", None, False),
        ("first 2", 1, False),
        ("none", None, True),
    ]


@each("axis", ["task: [pos]", "optim.lr: [1e-3]", "optim.batch_size: [4]", "data: [{folder: a}]"])
def test_a_key_that_stands_in_a_case_and_in_an_axis_is_refused(axis: str, here: Path) -> None:
    name = axis.split(":")[0].split(".")[0]
    (problem,) = problems(sweep(here, TWO + f"  {axis}\n"))
    assert f"space: {name} is in `cases` too; they override each other" in problem


@each("cases", ["[pos, sst2]", "[{}]", "[[task, pos]]", "{uniform: [0, 1]}", "[{task: pos}, 3]", "[{1: 2}]"])
def test_cases_that_are_no_mappings_are_refused(cases: str, here: Path) -> None:
    found = problems(sweep(here, f"trial: {{data: {{folder: bank}}}}\nspace: {{cases: {cases}}}\n"))
    assert any("space.cases: must be a list of mappings of settings" in p for p in found)


def test_a_seed_in_a_case_is_refused(here: Path) -> None:
    (problem,) = problems(sweep(here, "trial: {data: {folder: bank}}\nspace: {cases: [{seed: 1}, {seed: 2}]}\n"))
    assert "`seed` is not allowed in `trial` or `space`: list the seeds under `seeds`" in problem


def test_a_case_may_be_put_over_the_files_with_a_setting(here: Path) -> None:
    path = sweep(here, TWO)
    loaded, _ = load_sweep(path, ["space.cases=[{data: {folder: bank}}]"])
    found = points_of(loaded.search, loaded.space, lambda point: 6)
    assert [point.settings["cases"][1] for point in found] == [{"data": {"folder": "bank"}}]

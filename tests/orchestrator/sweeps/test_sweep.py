"""From a sweep's YAML to its trials, and every mistake with its place."""

from __future__ import annotations

import itertools
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.search_points import points_of
from orchestrator.sweeps.sweep import SweepSpec
from tests.builders import expanded, write_conllu, write_sweep, write_treebank
from tests.examples import each
from tests.plugin_packages import fresh_plugins as fresh_plugins
from tests.plugin_packages import install
from trials.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_treebank(tmp_path / "tiny")


def sweep(folder: Path, text: str) -> Path:
    """A sweep on the tiny treebank; `DATA` stands for it."""
    return write_sweep(folder.parent / "s.yaml", text.replace("DATA", f"{{folder: {folder}}}"))


def refusal(path: Path, *settings: str) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        expanded(path, *settings)
    return error.value


def test_a_grid_is_every_combination_times_the_seeds_in_the_files_order(folder: Path) -> None:
    path = sweep(folder, "trial: {data: DATA}\nspace: {train_size: [4, 8], freeze: [none, all_encoder]}\nseeds: [1, 0]")
    found = [(spec.train_size, spec.freeze.label, spec.seed) for spec in expanded(path)]
    assert found == [(size, freeze, seed) for size in (4, 8) for freeze in ("none", "all") for seed in (1, 0)]


def test_a_random_search_draws_as_many_cells_as_asked_and_those_of_a_short_list_once(folder: Path) -> None:
    space = "space: {optim.lr: {log_uniform: [1e-5, 1e-3]}, train_size: {int_uniform: [4, 8]}}"
    path = sweep(folder, f"trial: {{data: DATA}}\n{space}\nsearch: {{kind: random, cells: 20}}\nseeds: [0, 1]")
    specs = expanded(path)
    assert (len(specs), len({spec.cell_id for spec in specs})) == (40, 20)
    assert expanded(path) == specs != expanded(path, "search.seed=1")
    short = "space: {freeze: [none, all_encoder]}\nsearch: {kind: random, cells: 30}"
    found = expanded(sweep(folder, f"trial: {{data: DATA}}\n{short}"))
    assert sorted(spec.freeze.strategy for spec in found) == ["all_encoder", "none"]


@given(low=st.integers(-5, 5), span=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_whole_numbers_are_drawn_with_both_bounds_included(low: int, span: int, seed: int) -> None:
    search = {"kind": "random", "cells": 100, "seed": seed}
    content = {"name": "a", "space": {"n": {"int_uniform": [low, low + span]}}, "search": search}
    sweep = SweepSpec.model_validate(content)
    drawn = {point.settings["n"][1] for point in points_of(sweep.search, sweep.space, lambda point: 6)}
    assert drawn == set(range(low, low + span + 1))


@each("name", ["größe", "жоба", "空", "हिन्दी-2", "2.x_y"])
def test_a_name_is_of_letters_of_any_script_and_alike_however_they_are_typed(name: str) -> None:
    assert SweepSpec(name=unicodedata.normalize("NFD", name)).name == name


def test_all_mistakes_are_told_at_once_with_line_key_and_nearest_name(folder: Path) -> None:
    path = sweep(folder, "trial:\n  data: DATA\n  optm: {lr: 1}\nspace:\n  freeze:\n    - none\n    - frist_k\n")
    first, second = refusal(path).problems
    assert first.startswith(f"{path}:3: trial.optm: unknown 'optm', did you mean 'optim'?")
    assert second.startswith(f"{path}:7: space.freeze[1].strategy: unknown 'frist_k', did you mean 'first_k'?")
    of_setting = refusal(path, "space.freeze=[frist_k]").problems
    assert any(problem.startswith("--set space.freeze=[frist_k]: space.freeze[0]") for problem in of_setting)
    path = sweep(folder, "trial: {data: DATA, freeze: none}\nspace:\n  freeze.depth: [2]\n")
    assert f"{path}:3: space.freeze.depth[0]: freeze is 'none'" in str(refusal(path))
    path = sweep(folder, "seeds: [-1]\ntrial: {optim: {lr: -2}}\nspace: {data: [UD_Naija-NSC-sample]}\n")
    assert [problem.split(": ")[1] for problem in refusal(path).problems] == ["seeds[0]", "trial.optim.lr"]


def test_mistakes_are_told_in_the_order_of_the_file(folder: Path) -> None:
    text = "trial: {data: DATA}\ntrane: 3\nspace: {freeze: [frist_k]}\nseeds: [0, 0]\ngoal: {tolerance: much}\n"
    told = refusal(sweep(folder, text)).problems
    assert [line.split(":")[1:3] for line in told] == [
        ["2", " trane"], ["3", " space.freeze[0].strategy"], ["4", " seeds"], ["5", " goal.tolerance"],
    ]  # fmt: skip


def test_files_and_depths_that_are_wrong_are_told_in_the_same_round_and_nothing_is_fetched(folder: Path) -> None:
    text = """goal: {tolerance: -1}
trial:
  data: {train: absent.conllu, dev: gone.conllu}
  max_length: 9999
  optim: {lr: fast}
space: {freeze: [none, {strategy: first_k, depth: 40}]}
"""
    lines = [problem.split(":")[1] for problem in refusal(sweep(folder, text)).problems]
    assert lines == ["1", "3", "3", "4", "5", "6"]
    elsewhere = text.replace("{train: absent.conllu, dev: gone.conllu}", "ud:UD_Nowhere-None")
    lines = [problem.split(":")[1] for problem in refusal(sweep(folder, elsewhere)).problems]
    assert lines == ["1", "4", "5", "6"]


def test_a_folder_that_is_not_there_is_a_file_error_when_it_is_expanded_unless_a_setting_is_wrong(
    tmp_path: Path,
) -> None:
    path = write_sweep(tmp_path / "s.yaml", "trial:\n  data: {folder: /no/where}\n  model: /no/model\n")
    load_sweep(path, [])
    error, both = refusal(path), refusal(path, "trial.model=starter", "trial.freeze=first_k")
    assert (error.exit_code, both.exit_code, len(both.problems)) == (3, 2, 2)
    assert [problem.split("/no/")[0] for problem in error.problems] == [
        f"{path}:2: trial.data: no folder ",
        f"{path}:3: trial.model: no model folder at ",
    ]


def test_seeds_of_single_sources_add_replicates_not_cells(folder: Path) -> None:
    text = "trial: {data: DATA}\nspace: {init_seed: [0, 1], order_seed: [0, 1]}\nseeds: [0, 1]"
    specs = expanded(sweep(folder, text))
    assert len({spec.cell_id for spec in specs}) == 1
    assert {spec.seeds for spec in specs} == set(itertools.product((0, 1), repeat=3))


@each(
    "axis, message",
    [
        ("{}", "give one of choice, uniform, log_uniform, int_uniform"),
        ("{choice: [1], uniform: [1, 2]}", "give one of choice, uniform, log_uniform, int_uniform"),
        ("{uniform: [2, 1]}", "[2.0, 1.0]: the first bound must be below the second"),
        ("{log_uniform: [0, 1]}", "[0.0, 1.0]: a logarithm needs bounds above 0"),
        ("[]", "must have at least 1 value, not 0"),
        ("3", "3: must be a mapping of some of: choice, uniform, log_uniform, int_uniform."),
    ],
)
def test_an_axis_that_says_nothing_or_too_much_is_refused(tmp_path: Path, axis: str, message: str) -> None:
    path = write_sweep(tmp_path / "s.yaml", f"space:\n  optim.lr: {axis}\n")
    assert str(refusal(path)) == f"{path}:2: space.optim.lr: {message}"


@each(
    "text, said",
    [
        ("seeds: [0, 1, 0]", ":2: seeds: 0 is listed twice, but a seed gives one trial of a setting"),
        ("seeds: [0, 1]\nprecision: fp8", ":3: precision: unknown 'precision'"),
        (
            "space: {optim.lr: {uniform: [1, 2]}}",
            ": a grid needs lists, but optim.lr is a distribution; use search.kind: random",
        ),
        ("space: {optim.lr: [1, 2], optim: [{epochs: 1}]}", "optim.lr is inside optim: they override each other"),
        (
            "resources: {gpus: 1000}",
            ":2: resources.gpus: 1000: must be at most 1 or 'auto' or 'packed'",
        ),
    ],
)
def test_what_a_sweep_cannot_say_is_refused_at_its_line_with_the_way_out(folder: Path, text: str, said: str) -> None:
    assert said in str(refusal(sweep(folder, f"trial: {{data: DATA}}\n{text}\n")))


@each(
    "trial, said",
    [
        ("seed: 1", ": `seed` is not allowed in `trial` or `space`: list the seeds under `seeds`"),
        ("precision: fp8", ":1: trial.precision: 'fp8': must be 'fp32', 'bf16' or 'fp16'"),
        ("max_length: 129", ":1: trial.max_length: 129 is beyond the 128 positions of the model."),
        (
            "subset_seed: 1, init_seed: 1, order_seed: 1",
            "trial.init_seed: with `subset_seed` and `order_seed` as well,",
        ),
    ],
)
def test_a_mistake_of_a_trial_is_told_once_for_all_seeds(folder: Path, trial: str, said: str) -> None:
    (problem,) = refusal(sweep(folder, f"trial: {{data: DATA, {trial}}}\nseeds: [0, 1, 2]")).problems
    assert said in problem


def test_a_broken_corpus_is_read_once_for_all_trials(tmp_path: Path) -> None:
    (tmp_path / "train.conllu").write_text("1\tbroken\n" * 4_000)
    write_conllu(tmp_path / "dev.conllu", [[("a", "X")]])
    path = write_sweep(tmp_path / "s.yaml", f"space: {{data: [{{folder: '{tmp_path}'}}]}}\nseeds: {list(range(100))}\n")
    with pytest.raises(ConfigError) as caught:
        expanded(path)
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1].endswith("space.data[0]: ... and 3,980 more broken lines.")


def test_a_plug_in_beside_the_file_is_loaded_and_its_strategy_planned_and_an_absent_one_told(
    folder: Path, fresh_plugins: None
) -> None:
    install(folder.parent)
    text = "trial: {data: DATA}\nspace: {freeze: [{strategy: ends, depth: 4, embeddings: true}]}\nplugins: freeze_ends"
    (spec,) = expanded(sweep(folder, text))
    assert spec.freeze.label == "ends 4+E"
    error = refusal(sweep(folder, text), "space.freeze=[{strategy: ends, depth: 1}, {strategy: endz, depth: 2}]")
    assert "1 is not a depth of ends in model 'starter' of 6 layers: 0, 2, 4, 6." in str(error)
    assert "unknown 'endz', did you mean 'ends'?" in str(error)
    error = refusal(sweep(folder, "trial: {data: DATA}\nplugins:\n  - nowhere_to_be_found"))
    assert re.search(r"s\.yaml:\d+: plugins\[0\]: nowhere_to_be_found: no module .* beside the sweep file", str(error))

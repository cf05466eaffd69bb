"""Cells and their labels."""

from __future__ import annotations

from orchestrator.analysis.cells import by_cell, setting, varying_settings
from tests.builders import make_spec

BASE = [make_spec(seed=seed) for seed in (0, 1, 2)]
FROZEN = make_spec(freeze={"strategy": "first_k", "layers": (0, 1)})


def test_replicates_differ_in_the_seed_alone() -> None:
    assert [len(seeds) for seeds in by_cell([BASE[0], FROZEN, *BASE[1:]]).values()] == [3, 1]


def test_settings_that_vary_are_those_the_tables_do_not_show_anyway() -> None:
    specs = [make_spec(optim={"lr": lr}, train_size=size) for lr, size in ((1e-3, 100), (1e-4, 200))]
    assert varying_settings([*specs, FROZEN]) == ["optim.lr"]
    assert [setting(spec, "optim.lr") for spec in specs] == [1e-3, 1e-4]


def test_two_models_are_told_apart_by_name() -> None:
    assert varying_settings([BASE[0], make_spec(model={"name": "other", "path": "b"})]) == ["model.name"]


def test_no_cells_have_no_varying_settings() -> None:
    assert varying_settings([]) == []

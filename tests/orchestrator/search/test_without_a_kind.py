"""What decides which trials run is a boundary, and so is a storage service: without their files all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.copies import SWEEP, copied, run

LAUNCH = ("-m", "orchestrator.launch", "--sweep", "s.yaml", "--max-trials", "1", "--cluster", "inline")


def without(tree: Path, *files: str) -> Path:
    copied(tree)
    (tree / "s.yaml").write_text(SWEEP, encoding="utf-8")
    for file in files:
        (tree / "orchestrator" / file).unlink()
    return tree


@pytest.mark.slow
def test_without_searches_a_grid_runs_and_a_schedule_is_refused_in_a_line(tmp_path: Path) -> None:
    searches = (
        "optuna_search",
        "steering",
        "depth_search",
        "choose_depth",
        "kinds/steered",
        "kinds/sampled",
        "kinds/depths",
    )
    tree = without(tmp_path, *(f"search/{name}.py" for name in searches))
    assert run(tree, *LAUNCH, "--store", "results").returncode == 143  # at its limit
    refused = run(tree, *LAUNCH, "--store", "other", "--set", "schedule=asha")
    assert refused.returncode == 2
    said = "error: sweep small: nothing here decides by its `search`, `schedule` or `goal`."
    assert refused.stderr.splitlines()[-1] == said


@pytest.mark.slow
def test_without_optuna_a_schedule_is_planned_and_a_sampler_is_refused_in_a_line(tmp_path: Path) -> None:
    tree = without(tmp_path, "search/optuna_search.py", "search/kinds/sampled.py")
    assert run(tree, *LAUNCH, "--store", "results", "--set", "schedule=asha", "--dry-run").returncode == 0
    refused = run(tree, *LAUNCH, "--store", "other", "--set", "search={kind: tpe, cells: 2}")
    assert refused.returncode == 2
    assert "nothing here decides by its `search`" in refused.stderr.splitlines()[-1]


@pytest.mark.slow
def test_without_buckets_a_folder_is_a_store_and_an_address_is_refused_in_a_line(tmp_path: Path) -> None:
    files = ("services/buckets", "connection", "object_storage")
    tree = without(tmp_path, *(f"storage/{name}.py" for name in files))
    assert run(tree, *LAUNCH, "--store", "results", "--dry-run").returncode == 0
    refused = run(tree, *LAUNCH, "--store", "s3://bucket/results")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("error: unknown 's3'. Known: none.")

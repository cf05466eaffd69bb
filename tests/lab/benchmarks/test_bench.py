"""The short form of `make bench`: its parts measure what they say, on little work."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.lab.benchmarks import overhead, peers

BENCHMARK = Path(__file__).parents[3] / "configs" / "sweeps" / "benchmark.yaml"


@pytest.mark.slow
def test_rows_go_into_a_store_faster_than_values_into_optunas_journal() -> None:
    found = overhead.rows_into_a_store(2_000, n_optuna=500)
    assert found["n"] == 2_000
    assert found["times_optuna"] > 1  # 2.5 where a flush to the disk costs nothing, 10 to 25 where it waits


def test_a_store_of_many_trials_is_summarised_a_cell() -> None:
    found = overhead.a_large_store(200, 5)
    assert (found["epoch_rows"], found["trials"], found["cells"]) == (1_000, 200, 20)


def test_the_peers_do_the_work_of_the_benchmarks_sweep() -> None:
    sweep = yaml.safe_load(BENCHMARK.read_text(encoding="utf-8"))
    depths = [freeze.get("depth", 6) if isinstance(freeze, dict) else 0 for freeze in sweep["space"]["freeze"]]
    optim = sweep["trial"]["optim"]
    assert (tuple(depths), tuple(sweep["seeds"])) == (peers.DEPTHS, peers.SEEDS)
    assert (float(optim["lr"]), optim["batch_size"], optim["epochs"]) == (peers.LR, peers.BATCH, peers.EPOCHS)
    assert sweep["trial"]["data"]["first"] == {"train": peers.N_TRAIN, "dev": peers.N_DEV, "test": 0}

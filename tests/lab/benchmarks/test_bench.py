"""What `make bench` compares is the same work."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.lab.benchmarks import peers

BENCHMARK = Path(__file__).parents[3] / "configs" / "sweeps" / "benchmark.yaml"


def test_the_peers_do_the_work_of_the_benchmarks_sweep() -> None:
    sweep = yaml.safe_load(BENCHMARK.read_text(encoding="utf-8"))
    depths = [freeze.get("depth", 6) if isinstance(freeze, dict) else 0 for freeze in sweep["space"]["freeze"]]
    optim = sweep["trial"]["optim"]
    assert (tuple(depths), tuple(sweep["seeds"])) == (peers.DEPTHS, peers.SEEDS)
    assert (float(optim["lr"]), optim["batch_size"], optim["epochs"]) == (peers.LR, peers.BATCH, peers.EPOCHS)
    assert sweep["trial"]["data"]["first"] == {"train": peers.N_TRAIN, "dev": peers.N_DEV, "test": 0}

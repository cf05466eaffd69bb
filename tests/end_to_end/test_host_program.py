"""Permafrost called by another program: from a thread, as web apps do, and in a process that uses Ray already."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator import api
from orchestrator.store import open_store
from tests.end_to_end.conftest import environment
from tests.small_sweeps import write_bank

SWEEP: dict[str, Any] = {
    "name": "hosted",
    "trial": {"data": {"folder": "bank"}, "lowercase": True, "optim": {"lr": 1e-3, "epochs": 3}},
    "space": {"freeze": ["none", {"strategy": "all_encoder"}]},
    "seeds": [0, 1],
}
ON_RAY = f"""
import ray
from orchestrator import api
ray.init(num_cpus=2, include_dashboard=False)
try:
    api.launch({SWEEP}, cluster="local")
except Exception as error:
    print(error)
print(api.launch({SWEEP}, cluster="auto").outcome.completed, "completed; Ray goes on:", ray.is_initialized())
"""


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bank(tmp_path / "bank", train=24, dev=12, test=6)


def test_a_launch_in_a_thread_and_one_beside_it_have_the_scores_of_one_alone() -> None:
    scores = dict[str, list[float]]()

    def launch(name: str) -> None:
        api.launch({**SWEEP, "name": name}, cluster="inline", store=name)
        scores[name] = sorted(row["best_score"] for row in open_store(name).trials().to_pylist())

    threads = [threading.Thread(target=launch, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launch("alone")
    assert len(scores["alone"]) == 4
    assert scores["first"] == scores["second"] == scores["alone"]


@pytest.mark.cluster
def test_a_launch_in_a_process_that_uses_ray_runs_there_and_a_ray_of_its_own_is_refused_with_the_way_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_RAY], env=environment(), capture_output=True, text=True, check=False
    )
    assert "cluster local: this process is connected to a Ray already and cannot start another. Use " in done.stdout
    assert "4 completed; Ray goes on: True" in done.stdout, done.stderr

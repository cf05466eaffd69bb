"""Trials on a machine with GPUs, which is simulated (`tests/gpu_stand_in`): Ray counts them and torch believes in them.

What is computed is computed on the CPU; what each trial was given, and what CUDA_VISIBLE_DEVICES says in it, is real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import open_store
from tests.end_to_end.conftest import Command, environment

STAND_IN = Path(__file__).parents[1] / "gpu_stand_in"
TWO = ("--set", "seeds=[0]", "--set", "space.data=[{folder: one}]")
ASK_WORKERS = """
import os
from orchestrator.ray_engine.cluster import local_cluster
from orchestrator.ray_engine.slots import slots_for
from orchestrator.config.limits import Resources
from tests.builders import make_spec
with local_cluster(cpus=2, gpus=2) as cluster:
    import ray
    seen = lambda: os.environ.get("CUDA_VISIBLE_DEVICES")
    none, one = ray.remote(seen).remote(), ray.remote(num_gpus=1)(seen).remote()
    slots = slots_for(cluster.nodes, Resources(), [make_spec()] * 2)
    print(ray.get(none) == "", ray.get(one) in ("0", "1"), slots.described(), sep="|")
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """The file in which trials write what they were given and see."""
    return tmp_path / "seen"


@pytest.fixture
def gpus(request: pytest.FixtureRequest, seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started believe in so many GPUs."""
    monkeypatch.setenv("STAND_IN_GPUS", str(getattr(request, "param", 2)))
    monkeypatch.setenv("STAND_IN_LOG", str(seen))
    monkeypatch.setattr(
        "tests.end_to_end.conftest.environment",
        lambda: environment() | {"PYTHONPATH": os.pathsep.join([str(STAND_IN), environment()["PYTHONPATH"]])},
    )


def read(seen: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in seen.read_text(encoding="utf-8").splitlines()]


@pytest.mark.cluster
@pytest.mark.usefixtures("gpus")
def test_with_as_many_gpus_as_trials_each_has_one_and_sees_no_other(
    sweep: Path, tmp_path: Path, seen: Path, permafrost: Command
) -> None:
    done = permafrost("launch", "--sweep", sweep, "--store", tmp_path / "store", *TWO)
    assert done.returncode == 0, done.stderr
    assert "device  2 NVIDIA H100 (simulated): as many trials at a time on each as its memory and" in done.stderr
    assert "ray     2 trials at a time, 1 GPU each; dashboard" in done.stderr
    trials = read(seen)
    assert {(trial["gpus"], trial["device"]) for trial in trials} == {(1.0, "cuda")}
    assert {trial["visible"] for trial in trials} == {"0", "1"}
    rows = open_store(tmp_path / "store").trials().to_pylist()
    assert {(row["device"], row["gpus"]) for row in rows} == {("NVIDIA H100 (simulated)", 1.0)}
    again = permafrost("plan", "--sweep", sweep, "--store", tmp_path / "store", "--set", "seeds=[7]")
    assert (
        "on NVIDIA H100 (simulated)" in again.stdout.replace("\n", " ") or "; NVIDIA H100 (simulated)" in again.stdout
    )


@pytest.mark.cluster
@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("gpus", [1], indirect=True)
def test_trials_share_a_gpu_without_a_pilot_and_their_rows_say_so(
    sweep: Path, tmp_path: Path, seen: Path, permafrost: Command
) -> None:
    done = permafrost("launch", "--sweep", sweep, "--store", tmp_path / "store", *TWO)
    assert done.returncode == 0, done.stderr
    assert "one trial alone, then at most 2 trials at a time, 0.5 of a GPU each" in done.stderr
    assert "note    a trial took 1.07 GB of its GPU, 1 GB stay in reserve: 2 trials on a GPU from now on" in done.stderr
    rows = open_store(tmp_path / "store").trials().to_pylist()
    assert [(row["gpus"], row["energy_j"]) for row in rows] == [(0.5, None)] * 2
    assert {row["worker_slots"] for row in rows} == {1, 2}  # the first one was alone
    assert {trial["visible"] for trial in read(seen)} == {"0"}


@pytest.mark.cluster
@pytest.mark.usefixtures("gpus")
def test_a_card_that_torch_lists_and_cannot_use_gets_no_trial_and_is_named(
    sweep: Path, tmp_path: Path, seen: Path, permafrost: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_BROKEN", "0")
    done = permafrost("launch", "--sweep", sweep, "--store", tmp_path / "store", *TWO)
    assert done.returncode == 0, done.stderr
    assert "(number 0): CUDA error: no kernel image is available" in done.stderr
    assert {trial["visible"] for trial in read(seen)} == {"1"}


@pytest.mark.cluster
@pytest.mark.usefixtures("gpus")
def test_no_trial_is_lost_where_one_cannot_record_a_step_and_its_process_is_useless_afterwards(
    sweep: Path, tmp_path: Path, permafrost: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_UNRECORDABLE", "1")
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    done = permafrost("launch", "--sweep", sweep, "--store", tmp_path / "store", *TWO)
    assert done.returncode == 0, done.stderr
    assert "lost: trials.errors.RecordingError: CUDA error: a training step cannot be recorded" in done.stderr
    rows = open_store(tmp_path / "store").trials().to_pylist()
    assert [(row["state"], row["step_mode"]) for row in rows] == [("completed", "padded")] * 2
    assert all("cannot be recorded" in row["refused_modes"] for row in rows)


@pytest.mark.cluster
@pytest.mark.parametrize("gpus", [0], indirect=True)
@pytest.mark.usefixtures("gpus")
def test_a_worker_sees_what_ray_gives_it_and_a_gpu_that_torch_cannot_use_gets_no_trial() -> None:
    """Two logical GPUs of Ray's; on a cluster `auto` asks a worker with one of them whether CUDA works there."""
    from tests.end_to_end import conftest

    done = subprocess.run(
        [sys.executable, "-c", ASK_WORKERS], env=conftest.environment(), text=True, capture_output=True
    )
    assert done.stdout.splitlines()[-1:] == ["True|True|2 trials at a time"], done.stderr

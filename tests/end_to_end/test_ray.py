"""The main job on a real Ray: the same rows as without it, on all slots, in warm workers; failures and signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import ResultStore, open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.end_to_end.conftest import BUNDLED, SMALL, TIMES, Command, environment

pytestmark = pytest.mark.timeout(280)


def rows_without_times(store: ResultStore, *but: str) -> list[dict[str, Any]]:
    keep = [name for name in store.epochs().column_names if name not in {*TIMES, *but}]
    rows: list[dict[str, Any]] = store.epochs().select(keep).to_pylist()
    return rows


def test_ray_gives_the_rows_of_the_inline_driver_and_leaves_no_litter(
    sweep: Path, tmp_path: Path, permafrost: Command
) -> None:
    shared = ("--sweep", sweep, "--json", "--set", "space.train_size=[8,24]", "--store")
    inline = permafrost("launch", *shared, tmp_path / "inline", "--cluster", "inline")
    on_ray = permafrost("launch", *shared, tmp_path / "ray")
    assert (inline.returncode, on_ray.returncode) == (0, 0), on_ray.stderr
    assert json.loads(on_ray.stdout)["completed"] == 16
    assert rows_without_times(open_store(tmp_path / "ray")) == rows_without_times(open_store(tmp_path / "inline"))
    kept = {path.name for path in (tmp_path / "ray").iterdir() if path.is_file() or any(path.rglob("*.*"))}
    assert kept == {"epochs", "predictions", "store.json", "sweeps", "tags", "trials"}
    assert {path.name for path in tmp_path.iterdir()} == {"inline", "one", "ray", "small.yaml", "two"}
    assert "dashboard http://127.0.0.1:" in on_ray.stderr
    assert "Warning" not in on_ray.stderr


@pytest.fixture
def long_sweep(tmp_path: Path) -> Path:
    """Trials of a few seconds each, with many evaluations."""
    write_tagged_treebank(tmp_path / "one", train=240, dev=8)
    text = SMALL.replace(BUNDLED, "[{folder: one}]").replace("[24]", "[240]").replace("epochs: 2", "epochs: 6")
    return write_sweep(tmp_path / "long.yaml", text.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"))


@contextmanager
def launch_in(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The long sweep under way; killed at the end if it has not ended by itself."""
    words = [sys.executable, "-m", "orchestrator.launch", "--sweep", "long.yaml", "--store", "store", *arguments]
    process = subprocess.Popen(
        words, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def launched(long_sweep: Path) -> Iterator[subprocess.Popen[str]]:
    """A launch under way."""
    with launch_in(long_sweep.parent) as process:
        yield process


def wait_for_rows(store: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (store / "epochs").exists() and len(open_store(store).epochs()) >= n:
            return
        time.sleep(0.2)
    raise AssertionError(f"no {n} epoch rows in {store} after two minutes")


def test_while_it_runs_all_slots_work_rays_dashboard_names_the_trials_and_a_second_driver_is_refused(
    long_sweep: Path, tmp_path: Path, permafrost: Command
) -> None:
    with launch_in(long_sweep.parent, "--set", "trial.optim.epochs=200") as launched:
        wait_for_rows(tmp_path / "store", 4)
        rows = open_store(tmp_path / "store").epochs().to_pylist()
        assert len({row["trial_id"] for row in rows}) == 2
        assert launched.stderr is not None
        address = next(line for line in iter(launched.stderr.readline, "") if "dashboard" in line)
        titles = named_workers(address.split("dashboard ")[1].split()[0])
        second = permafrost("launch", "--sweep", "long.yaml", "--store", "store", "--cluster", "inline")
    assert len(titles) == 2
    assert second.returncode == 3
    assert f"process {launched.pid}" in second.stderr


def named_workers(dashboard: str) -> list[str]:
    """The titles of the workers that run a trial; the dashboard asks its machines only every few seconds."""
    deadline, found = time.monotonic() + 60, list[str]()
    while len(found) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
        found = [title for title in worker_titles(dashboard) if title.startswith("ray::one_")]
    return found


def worker_titles(dashboard: str) -> list[str]:
    """What the dashboard's cluster page lists for this machine's workers."""
    ray = Path(sys.executable).with_name("ray")
    token = subprocess.run([ray, "get-auth-token"], capture_output=True, text=True).stdout.strip()
    request = urllib.request.Request(f"{dashboard}/nodes?view=summary", headers={"Authorization": f"Bearer {token}"})
    summary = json.load(urllib.request.urlopen(request, timeout=20))["data"]["summary"]
    node = summary[0]["raylet"]["nodeId"]
    request = urllib.request.Request(f"{dashboard}/nodes/{node}", headers={"Authorization": f"Bearer {token}"})
    workers = json.load(urllib.request.urlopen(request, timeout=20))["data"]["detail"]["workers"]
    return [" ".join(worker["cmdline"]) for worker in workers]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_keeps_what_is_done_and_says_how_to_go_on(
    number: signal.Signals, code: int, launched: subprocess.Popen[str], tmp_path: Path, permafrost: Command
) -> None:
    wait_for_rows(tmp_path / "store", 2)
    launched.send_signal(number)
    _, err = launched.communicate(timeout=90)
    assert launched.returncode == code, err
    assert "-m orchestrator.launch --sweep long.yaml" in err
    assert "Traceback" not in err
    before = {row["trial_id"] for row in open_store(tmp_path / "store").trials().to_pylist()}
    assert not list((tmp_path / "store").rglob("*.tmp"))
    done = permafrost("launch", "--sweep", "long.yaml", "--store", "store", "--json", "--cluster", "inline")
    outcome = json.loads(done.stdout)
    assert (outcome["skipped"], outcome["completed"]) == (len(before), 6 - len(before))


@pytest.mark.parametrize("after_s", [0, 2.5])  # before Ray starts, and while it takes the signal for itself
def test_sigterm_before_the_first_trial_leaves_in_order(
    after_s: float, launched: subprocess.Popen[str], tmp_path: Path
) -> None:
    lease = tmp_path / "store" / "leases" / "tiny"
    while not list(lease.glob("*.json")):
        assert launched.poll() is None
        time.sleep(0.05)
    time.sleep(after_s)
    launched.send_signal(signal.SIGTERM)
    _, err = launched.communicate(timeout=60)
    assert launched.returncode == 143, err
    assert "the same command goes on" in err or "Go on with:" in err
    assert "Traceback" not in err
    assert not list(lease.glob("*.json"))


@pytest.mark.slow  # the short chaos run loses a worker too
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_trial_whose_worker_goes_is_finished_by_another_with_the_same_rows(
    number: signal.Signals, long_sweep: Path, tmp_path: Path, permafrost: Command
) -> None:
    one_seed = ("--set", "seeds=[0]", "--set", "checkpoint={epochs: 1}")
    with launch_in(long_sweep.parent, *one_seed) as launched:
        wait_for_rows(tmp_path / "store", 2)
        victims = subprocess.run(["pgrep", "-f", "^ray::one_"], capture_output=True, text=True).stdout.split()
        subprocess.run(["kill", f"-{number.value}", victims[0]], check=True)
        _, err = launched.communicate(timeout=200)
    assert launched.returncode == 0, err
    assert "again: one_" in err
    store = open_store(tmp_path / "store")
    assert sorted(row["attempt"] for row in store.trials().to_pylist()) == [1, 2]
    permafrost("launch", "--sweep", "long.yaml", "--store", "alone", "--cluster", "inline", *one_seed)
    assert rows_without_times(store, "attempt") == rows_without_times(open_store(tmp_path / "alone"), "attempt")
    assert not list((tmp_path / "store" / "checkpoints").iterdir())


@pytest.mark.slow  # what is counted is tested in test_packing
def test_packed_trials_share_a_gpu_by_the_memory_of_a_pilot(
    sweep: Path, tmp_path: Path, permafrost: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 2, "GPU": 1}')  # Ray counts it, torch runs on the CPU
    settings = ("--set", "resources.gpus=packed", "--set", "space.freeze=[none]", "--set", "space.data=[{folder: one}]")
    done = permafrost("launch", "--sweep", sweep, "--store", tmp_path / "store", *settings)
    assert done.returncode == 0, done.stderr
    assert "2 trials at a time, 0.5 of a GPU each" in done.stderr
    assert [row["gpus"] for row in open_store(tmp_path / "store").trials().to_pylist()] == [0.5, 0.5]

"""The main job on a real Ray: the same rows as without it, on all slots, in warm workers; failures and signals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from orchestrator.extras.store_care.check import check_store
from orchestrator.store import ResultStore, open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.end_to_end.conftest import BUNDLED, SMALL, TIMES, Command, environment, printed_commands, run_here
from tests.examples import first
from tests.lab.chaos.processes import of_kind


def rows_without_times(store: ResultStore, *but: str) -> list[dict[str, Any]]:
    keep = [name for name in store.epochs().column_names if name not in {*TIMES, *but}]
    rows: list[dict[str, Any]] = store.epochs().select(keep).to_pylist()
    return rows


@pytest.mark.cluster
def test_a_sweep_on_ray_leaves_its_store_and_nothing_else(sweep: Path, tmp_path: Path, permafrost: Command) -> None:
    done = permafrost("launch", "--sweep", sweep, "--json", "--set", "seeds=[0]", "--store", tmp_path / "ray")
    assert (done.returncode, json.loads(done.stdout)["completed"]) == (0, 4), done.stderr
    kept = {path.name for path in (tmp_path / "ray").iterdir() if path.is_file() or any(path.rglob("*.*"))}
    assert kept == {
        "commits", "contributions", "epochs", "predictions", "store.json", "sweeps", "tags", "trials",
    }  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"one", "ray", "small.yaml", "two"}
    assert "dashboard http://127.0.0.1:" in done.stderr
    assert "Warning" not in done.stderr


def write_long_sweep(folder: Path) -> Path:
    """Trials of a few seconds each, with many evaluations."""
    write_tagged_treebank(folder / "one", train=240, dev=8)
    text = SMALL.replace(BUNDLED, "[{folder: one}]").replace("[24]", "[240]").replace("epochs: 2", "epochs: 6")
    return write_sweep(folder / "long.yaml", text.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"))


@pytest.fixture
def long_sweep(tmp_path: Path) -> Path:
    return write_long_sweep(tmp_path)


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


@pytest.fixture
def launched_for_ever(long_sweep: Path) -> Iterator[subprocess.Popen[str]]:
    """A launch that does not end by itself."""
    with launch_in(
        long_sweep.parent, "--set", "space.optim.epochs=[9000]", "--set", "checkpoint={epochs: 1}"
    ) as process:
        yield process


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until it holds, however long that takes; a process that ends before is a failure."""
    while not holds():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.2)


def n_rows(store: Path) -> dict[str, int]:
    """Evaluations so far, by trial."""
    found = open_store(store).epochs() if (store / "epochs").exists() else None
    return Counter(row["trial_id"] for row in found.to_pylist()) if found is not None else {}


@dataclass(frozen=True)
class Interrupted:
    """What a sweep on Ray showed before and after Ctrl-C: two of its trials are done in no time, two take minutes."""

    folder: Path
    titles: set[str]
    status: Result
    driver: int
    code: int
    said: str

    @property
    def store(self) -> ResultStore:
        return open_store(self.folder / "store")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """One sweep on Ray for all that `make test` asks of Ray."""
    folder = write_long_sweep(tmp_path_factory.mktemp("interrupted")).parent
    cells = ("--set", "seeds=[0]", "--set", "space.optim.epochs=[2,2000]", "--set", "space.train_size=[24]")
    with launch_in(folder, *cells) as launch:
        wait_until(lambda: sum(n > 2 for n in n_rows(folder / "store").values()) == 2, launch)
        wait_until(lambda: len(list((folder / "store" / "claims").iterdir())) == 2, launch)  # two have been let go of
        titles = set[str]()
        while len(titles) < 2:  # between two steps of a trial its worker has Ray's title again
            assert launch.poll() is None, launch.communicate()[1]
            titles |= {process.title for process in of_kind(folder, "worker") if process.title.startswith("ray::one_")}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", environment()["COLUMNS"])
            status = run_here("status", "--store", folder / "store")
        launch.send_signal(signal.SIGINT)
        _, said = launch.communicate()
        return Interrupted(folder, titles, status, launch.pid, launch.returncode, said)


def test_on_ray_all_slots_work_and_a_worker_has_the_name_of_its_trial(interrupted: Interrupted) -> None:
    assert len(interrupted.titles) == 2


def test_another_process_sees_the_driver_and_how_many_trials_it_runs(interrupted: Interrupted) -> None:
    assert interrupted.status.exit_code == 0
    (line,) = (line for line in interrupted.status.stdout.splitlines() if line.startswith("driver"))
    assert f"process {interrupted.driver}" in line
    assert line.endswith(", 2 trials")


def test_ctrl_c_keeps_what_is_done_and_prints_the_command_that_resumes(interrupted: Interrupted) -> None:
    assert (interrupted.code, "Traceback" in interrupted.said) == (130, False), interrupted.said
    assert {path.name for path in (interrupted.folder / "store").iterdir() if any(path.rglob("*.*"))} <= {
        "claims", "commits", "contributions", "epochs", "predictions", "sweeps", "tags", "trials",
    }  # fmt: skip
    # A claim to a trial that has not ended stays, and its number is taken; without its driver it is free.
    assert not list((interrupted.folder / "store").glob("drivers/*"))
    command, _ = printed_commands(interrupted.said)
    words = [*command, "--dry-run", "--json"]
    resumed = subprocess.run(words, cwd=interrupted.folder, capture_output=True, text=True, env=environment())
    outcome = json.loads(resumed.stdout)
    assert (outcome["planned"], outcome["skipped"]) == (4, len(interrupted.store.trials())) == (4, 2)


def test_ray_gives_the_rows_of_the_inline_driver(interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(interrupted.folder)
    cells = ("--set", "seeds=[0]", "--set", "space.optim.epochs=[2]", "--set", "space.train_size=[24]")
    assert run_here("launch", "--sweep", "long.yaml", "--store", "alone", "--cluster", "inline", *cells).exit_code == 0
    alone = rows_without_times(open_store(interrupted.folder / "alone"))
    done = {row["trial_id"] for row in alone}
    assert [row for row in rows_without_times(interrupted.store) if row["trial_id"] in done] == alone
    assert len(alone) == 4


@pytest.mark.cluster
@pytest.mark.parametrize("number", first(1, [signal.SIGINT, signal.SIGTERM]))
def test_after_a_signal_the_printed_command_finishes_the_sweep(
    number: signal.Signals, launched: subprocess.Popen[str], tmp_path: Path
) -> None:
    wait_until(lambda: sum(n_rows(tmp_path / "store").values()) >= 2, launched)
    launched.send_signal(number)
    _, err = launched.communicate()
    assert launched.returncode == 128 + number, err
    assert "Traceback" not in err
    before = {row["trial_id"] for row in open_store(tmp_path / "store").trials().to_pylist()}
    assert not list((tmp_path / "store").rglob("*.tmp"))
    command, _ = printed_commands(err)
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, env=environment())
    outcome = json.loads(done.stdout)
    assert (outcome["skipped"], outcome["completed"]) == (len(before), 6 - len(before))


@pytest.mark.parametrize(
    "after_s", [0, *(pytest.param(s, marks=[pytest.mark.cluster, pytest.mark.slow]) for s in (1.5, 2.5))]
)  # before Ray starts, and while it takes the signal for itself
def test_sigterm_before_the_first_trial_leaves_in_order(
    after_s: float, launched: subprocess.Popen[str], tmp_path: Path
) -> None:
    drivers = tmp_path / "store" / "drivers"
    while not list(drivers.glob("*.json")):
        assert launched.poll() is None
        time.sleep(0.05)
    time.sleep(after_s)
    launched.send_signal(signal.SIGTERM)
    _, err = launched.communicate()
    assert launched.returncode == 143, err
    assert "Run the same command to resume" in err or "Resume with:" in err
    assert "Traceback" not in err
    assert not list(drivers.glob("*.json"))


LAST_MOMENTS = [  # the number of trials that are done, seconds after it was shown, and the signal
    (6, 0.6, signal.SIGTERM),  # as Ray is left, which resets SIGTERM to its default
    (6, 0.0, signal.SIGINT),
    (5, 0.0, signal.SIGTERM),
    (4, 0.0, signal.SIGINT),
]


@pytest.mark.cluster
@pytest.mark.parametrize("moment", first(2, LAST_MOMENTS))
def test_what_was_shown_as_done_is_stored_whenever_a_signal_comes(
    moment: tuple[int, float, signal.Signals], long_sweep: Path, tmp_path: Path
) -> None:
    (n, after_s, number), shown = moment, set[str]()
    with launch_in(long_sweep.parent, "--set", "space.optim.epochs=[1]") as launched:
        assert launched.stderr is not None
        for line in launched.stderr:
            if done := re.match(r"(\d)/6 completed (\S+)", line):
                shown.add(done[2])
                if int(done[1]) == n:
                    time.sleep(after_s)
                    launched.send_signal(number)
        out = launched.communicate()[0]
    stored = open_store(tmp_path / "store").completed_ids()
    assert len(stored) >= len(shown) >= n
    assert launched.returncode in ((0,) if len(stored) == 6 else (0, 128 + number)), out
    assert "dev score" in out or launched.returncode  # what is done is shown after a stop, too
    assert check_store(tmp_path / "store").ok


@pytest.mark.cluster  # the short chaos run loses a worker too
@pytest.mark.parametrize("number", first(1, [signal.SIGKILL, signal.SIGTERM]))
def test_a_trial_whose_worker_goes_is_finished_by_another_with_the_same_rows(
    number: signal.Signals, long_sweep: Path, tmp_path: Path, permafrost: Command
) -> None:
    one_seed = ("--set", "seeds=[0]", "--set", "checkpoint={epochs: 1}")
    with launch_in(long_sweep.parent, *one_seed) as launched:
        wait_until(lambda: sum(n_rows(tmp_path / "store").values()) >= 2, launched)
        victims = subprocess.run(["pgrep", "-f", "^ray::one_"], capture_output=True, text=True).stdout.split()
        subprocess.run(["kill", f"-{number.value}", victims[0]], check=True)
        _, err = launched.communicate()
    assert launched.returncode == 0, err
    assert "retry: one_" in err
    store = open_store(tmp_path / "store")
    assert sorted(row["attempt"] for row in store.trials().to_pylist()) == [1, 2]
    permafrost("launch", "--sweep", "long.yaml", "--store", "alone", "--cluster", "inline", *one_seed)
    assert rows_without_times(store, "attempt") == rows_without_times(open_store(tmp_path / "alone"), "attempt")
    assert store.storage.subfolder("checkpoints").is_free()  # but for what a killed worker was writing


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_launch_whose_ray_dies_ends_in_words_and_keeps_everything(
    name: str, launched_for_ever: subprocess.Popen[str], tmp_path: Path
) -> None:
    wait_until(lambda: sum(n_rows(tmp_path / "store").values()) >= 2, launched_for_ever)
    before = sum(n_rows(tmp_path / "store").values())
    children = ["pgrep", "-P", str(launched_for_ever.pid), "-f", f"/{name}"]
    victim = subprocess.run(children, capture_output=True, text=True, check=True).stdout.split()[0]
    subprocess.run(["kill", "-9", victim], check=True)
    out, err = launched_for_ever.communicate()
    assert launched_for_ever.returncode == 1, err
    assert f"error: the local Ray is gone: its process {name} was killed by signal 9" in err
    assert (out, "Traceback" in err, "\x1b" in err) == ("", False, False)
    assert sum(n_rows(tmp_path / "store").values()) >= before
    assert check_store(tmp_path / "store").ok
    assert not list((tmp_path / "store" / "drivers").glob("*"))

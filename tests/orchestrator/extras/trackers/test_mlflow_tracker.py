"""A real tracking server of MLflow on loopback: what it holds after a sweep, and after exports of its store."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.orchestrator.extras.trackers.mlflow_server import mlflow_server
from tests.orchestrator.extras.trackers.tracked_sweep import (
    BROKEN,
    COMPLETE,
    DIVERGED,
    HOSTILE,
    RETRIED,
    SPECS,
    STOPPED,
    driven,
    exported,
    play,
)
from tests.server_programs import free_port
from trials.escaping import escape_line


class Tracked(NamedTuple):
    """A sweep that was followed while it ran, in the experiment `live`, and the server's address."""

    folder: Path
    uri: str


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracked]:
    pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    with mlflow_server(folder) as uri, pytest.MonkeyPatch.context() as patch, driven(folder):
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        export("live", folder, "--follow")
        yield Tracked(folder, uri)


def export(experiment: str, folder: Path, *options: str) -> None:
    done = exported(folder, "--to", "mlflow", "--into", experiment, *options)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "wrote 5 trials of tiny to mlflow"), done.stderr


def client(tracked: Tracked) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=tracked.uri)


def runs(tracked: Tracked, experiment: str) -> dict[str, Any]:
    """The runs of an experiment by trial id."""
    found = client(tracked).get_experiment_by_name(experiment)
    listed = client(tracked).search_runs([found.experiment_id])
    by_trial = {run.data.tags["permafrost.trial_id"]: run for run in listed}
    assert len(by_trial) == len(listed)
    return by_trial


def history(tracked: Tracked, run: Any, metric: str) -> list[tuple[int, int, str]]:
    """(step, time in ms, value) of a metric."""
    found = client(tracked).get_metric_history(run.info.run_id, metric)
    return sorted((each.step, each.timestamp, repr(each.value)) for each in found)


def content(tracked: Tracked, experiment: str) -> dict[str, Any]:
    """All that two experiments with the same runs have in common."""
    found = {}
    for trial_id, run in runs(tracked, experiment).items():
        metrics = {name: history(tracked, run, name) for name in run.data.metrics}
        found[trial_id] = (run.info.run_name, run.info.status, run.data.params, run.data.tags, metrics)
    return found


def status(run: Any) -> tuple[str, str]:
    return run.info.status, run.data.tags["permafrost.state"]


@pytest.mark.slow
def test_every_trial_is_a_run_that_says_how_it_ended(tracked: Tracked) -> None:
    found = runs(tracked, "live")
    assert found.keys() == {spec.trial_id for spec in SPECS}
    assert {run.data.tags["permafrost.sweep"] for run in found.values()} == {"tiny"}
    assert status(found[COMPLETE.trial_id]) == status(found[RETRIED.trial_id]) == ("FINISHED", "completed")
    assert status(found[DIVERGED.trial_id]) == ("FAILED", "diverged")
    assert status(found[BROKEN.trial_id]) == ("FAILED", "failed")
    assert found[STOPPED.trial_id].info.status == "KILLED"
    assert found[BROKEN.trial_id].data.tags["permafrost.error"] == "FileNotFoundError: //***@host"


@pytest.mark.slow
def test_a_run_has_the_settings_and_every_evaluation_of_the_newest_attempt(tracked: Tracked) -> None:
    found = runs(tracked, "live")
    run = found[RETRIED.trial_id]
    settings = {"freeze.strategy": "first_k", "freeze.depth": "2", "seed": "0", "data.name": escape_line(HOSTILE)}
    assert settings.items() <= run.data.params.items()
    times = (1_750_000_060_000, 1_750_000_120_000)
    assert history(tracked, run, "score") == [(13, times[0], "0.625"), (26, times[1], "0.75")]
    assert history(tracked, run, "test/accuracy") == [(26, times[1], "0.75")]
    assert math.isnan(found[DIVERGED.trial_id].data.metrics["dev_loss"])


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["exported", "live"])
def test_exports_give_the_runs_that_were_followed_and_none_twice(tracked: Tracked, experiment: str) -> None:
    before = content(tracked, "live")
    for _ in range(2):
        export(experiment, tracked.folder)
    assert content(tracked, experiment) == content(tracked, "live") == before


def test_a_server_that_is_down_or_not_named_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    *_, _ = play(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    done = exported(tmp_path, "--to", "mlflow")
    assert done.exit_code == 3
    assert "mlflow: MlflowException: API request" in done.stderr
    assert done.stderr.endswith("Run it again: no run is doubled.\n")
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    done = exported(tmp_path, "--to", "mlflow")
    assert (done.exit_code, "set MLFLOW_TRACKING_URI" in done.stderr) == (2, True)

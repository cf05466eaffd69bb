"""The log and the trackers of a sweep file."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.sweep import SweepSpec
from orchestrator.sweeps.watch_spec import WatchSpec
from tests.builders import expanded, write_sweep
from tests.examples import each
from trials.errors import ConfigError


@each(
    "text, place, rule",
    [
        ("mlflow: http://me:hunter2@host", "watch", "must be a mapping of uri and experiment"),
        ("mlflow: {uri: 'http://me:hunter2@host', experiment: x}", "watch.mlflow", "MLFLOW_TRACKING_USERNAME"),
        ("mlflow: {uri: 'http://host?token=hunter2', experiment: x}", "watch.mlflow", "without a user or a query"),
        ("mlflow: {uri: 'http://host', experiment: x, token: hunter2}", "watch.mlflow", "unknown 'token'"),
        ("mlflow: {uri: 'sqlite:///hunter2.db', experiment: x}", "watch.mlflow", "must be http://HOST:PORT"),
        ("tensorboard: /home/me/.config/hunter2", "watch.tensorboard", "no folder of the path may start with a dot"),
        ("notify: 'http://hook/hunter2'", "watch.notify", "was removed"),
        ("wandb: {project: x/hunter2}", "watch.wandb.project", "must match the pattern"),
    ],
)
def test_what_is_no_tracker_is_refused_without_its_secret(text: str, place: str, rule: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        expanded(write_sweep(tmp_path / "x.yaml", f"watch: {{{text}}}\n"))
    assert place in str(error.value)
    assert rule in str(error.value)
    assert "hunter2" not in str(error.value) or place in ("watch.tensorboard", "watch.wandb.project")


def test_a_tracker_whose_package_is_absent_is_refused_when_the_sweep_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestrator.api.launching import plan

    empty = ModuleSpec("wandb", None, is_package=True)  # a folder of that name, as W&B makes one
    monkeypatch.setattr("importlib.util.find_spec", {"wandb": empty}.get)
    watch = {"tensorboard": "runs", "wandb": {"project": "x"}}
    with pytest.raises(ConfigError) as error:
        plan({"name": "x", "watch": watch}, store=str(tmp_path / "results"), offline=True)
    assert [line.rpartition("Run: ")[2] for line in error.value.problems] == [
        "pip install 'permafrost-sweeps[tensorboard]'",
        "pip install 'permafrost-sweeps[wandb]'",
    ]


def test_trackers_of_a_cluster_are_added_to_those_of_the_sweep() -> None:
    sweep = SweepSpec(name="x", watch=WatchSpec(tensorboard="runs", log="x.jsonl"))
    mlflow = {"uri": "http://127.0.0.1:5000", "experiment": "freezing"}
    watch = ClusterSpec.model_validate({"watch": {"mlflow": mlflow}}).over(sweep).watch
    assert (watch.trackers, watch.log) == (["mlflow", "tensorboard"], "x.jsonl")
    assert watch.mlflow is not None
    assert watch.mlflow.experiment == "freezing"

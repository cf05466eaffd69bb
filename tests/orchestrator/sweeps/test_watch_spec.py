"""Webhooks and trackers of a sweep file."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.config.yaml_document import faults
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.sweep import SweepSpec
from orchestrator.sweeps.watch_spec import (
    NotifySpec,
    WatchSpec,
    WebhookSpec,
    is_loopback,
    read_secret,
)
from tests.builders import expanded, write_sweep
from tests.examples import each
from trials.errors import ConfigError

SECRET = "https://hooks.example.org/services/T0/B0/kJ8s9dXq2LmN"
WAYS = ("url_env", "url_file")


def test_every_key_reads_as_a_word_in_yaml_and_all_three_events_are_told_unless_some_are_chosen() -> None:
    specs = (WatchSpec, NotifySpec, WebhookSpec)
    keys = [key for spec in specs for key in spec.model_fields]
    assert list(yaml.safe_load("".join(f"{key}: 1\n" for key in keys))) == keys
    assert NotifySpec(webhook=WebhookSpec(url_env="HOOK")).events == ["done", "failed", "stalled"]


def said_of(content: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        WatchSpec.model_validate(content)
    return " ".join(each.text for each in faults(caught.value, WatchSpec))


@each("notify", [SECRET, *({"webhook": webhook} for webhook in (SECRET, *({k: SECRET} for k in ("url", *WAYS))))])
def test_a_literal_secret_is_refused_with_the_way_out_and_not_repeated(notify: object) -> None:
    said = said_of({"notify": notify})
    assert "Name an environment variable" in said
    assert "kj8s9dxq2lmn" not in said.lower()


@each(
    "notify, said",
    [
        ({}, "is missing. Add it."),
        ({"email": {"host": "x", "password": SECRET}}, "e-mail was removed. Use `webhook`."),
        ({"webhook": {}}, "give one of url_env, url_file"),
        ({"webhook": {"url_env": "A", "url_file": "b"}}, "give one of url_env, url_file"),
        ({"webhook": {"url_env": "A"}, "events": ["finished"]}, "'finished'"),
        ({"webhook": {"url_env": "A"}, "stalled_minutes": 0}, "must be above 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(notify: dict[str, Any], said: str) -> None:
    assert said in said_of({"notify": notify})


def test_a_secret_is_read_from_a_variable_or_a_file_without_the_space_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", f" {SECRET}\n")
    (tmp_path / "hook").write_text(f"{SECRET}\n", encoding="utf-8")
    assert read_secret("HOOK", None) == read_secret(None, str(tmp_path / "hook")) == SECRET


@each("variable, file", [("ABSENT_HOOK", None), (None, "absent"), (None, "empty"), (None, ".")])
def test_an_absent_or_empty_secret_is_told_by_its_place(
    variable: str | None, file: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text(" \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"{variable or file}\b|file \."):
        read_secret(variable, file)


@given(st.text(max_size=30))
def test_no_name_but_one_of_this_machine_is_loopback(host: str) -> None:
    assert not is_loopback(f"x{host}")
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]")))
    assert not is_loopback(f"127.0.0.1.{host}")


# --- The trackers that a sweep names.


@each(
    "text, place, rule",
    [
        ("mlflow: http://me:hunter2@host", "watch", "must be a mapping of uri and experiment"),
        ("mlflow: {uri: 'http://me:hunter2@host', experiment: x}", "watch.mlflow", "MLFLOW_TRACKING_USERNAME"),
        ("mlflow: {uri: 'http://host?token=hunter2', experiment: x}", "watch.mlflow", "without a user or a query"),
        ("mlflow: {uri: 'http://host', experiment: x, token: hunter2}", "watch.mlflow", "unknown 'token'"),
        ("mlflow: {uri: 'sqlite:///hunter2.db', experiment: x}", "watch.mlflow", "must be http://HOST:PORT"),
        ("tensorboard: /home/me/.config/hunter2", "watch.tensorboard", "no folder of the path may start with a dot"),
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

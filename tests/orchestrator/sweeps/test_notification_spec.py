"""What may stand under `watch`, and that no secret is repeated by an error about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.config.yaml_document import faults
from orchestrator.sweeps.watch_spec import (
    NotifySpec,
    WatchSpec,
    WebhookSpec,
    is_loopback,
    read_secret,
)
from tests.examples import each
from trials.errors import ConfigError

SECRET = "https://hooks.example.org/services/T0/B0/kJ8s9dXq2LmN"


def test_every_key_reads_as_a_word_in_yaml() -> None:
    specs = (WatchSpec, NotifySpec, WebhookSpec)
    keys = [key for spec in specs for key in spec.model_fields]
    assert list(yaml.safe_load("".join(f"{key}: 1\n" for key in keys))) == keys


def said_of(content: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        WatchSpec.model_validate(content)
    return " ".join(each.text for each in faults(caught.value, WatchSpec))


@each(
    "notify",
    [
        SECRET,
        {"webhook": SECRET},
        {"webhook": {"url": SECRET}},
        {"webhook": {"url_env": SECRET}},
        {"webhook": {"url_file": SECRET}},
    ],
)
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


def test_all_three_events_are_told_unless_some_are_chosen() -> None:
    assert NotifySpec(webhook=WebhookSpec(url_env="HOOK")).events == ["done", "failed", "stalled"]


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

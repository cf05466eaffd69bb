"""Names of models without a revision: what the hub and its cache make of them, in this process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from tests.examples import each, refusal_of
from tests.hub_repos import cached_snapshot, model, point_at
from tests.servers import Files, HubRepo, HubServer
from trials.errors import ModelError
from trials.sources.cache import forbidden
from trials.sources.places.hub_model import FetchedModel, fetch_model
from trials.sources.places.model_draft import ModelDraft, find_model, named_model

FILES = {"config.json": b"{}", "model.safetensors": b"w", "tokenizer.json": b"{}"}
OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with HubServer(model("google-bert/bert-base-cased", FILES)) as server:
        server.moved["bert-base-cased"] = "google-bert/bert-base-cased"
        point_at(server, monkeypatch, tmp_path)
        yield server


def fetch(name: str, revision: str | None = None, *, offline: bool = False) -> FetchedModel:
    return fetch_model(name, revision, allow_pickle=False, offline=offline)


refused = refusal_of(fetch, ModelError)


# --- Names


@each(
    "name, means",
    [
        ("starter", {"folder": "starter"}),
        ("trials", {"folder": "trials"}),
        ("./bert", {"folder": "./bert"}),
        ("~/bert", {"folder": "~/bert"}),
        ("a/b/c", {"folder": "a/b/c"}),
        ("C:/models/bert", {"folder": "C:/models/bert"}),
        ("bert-base-cased", {"hub": "bert-base-cased"}),
        ("google-bert/bert-base-cased@refs/pr/1", {"hub": "google-bert/bert-base-cased", "revision": "refs/pr/1"}),
        ("hub:trials", {"hub": "trials"}),
        ("hub:a/b@v1", {"hub": "a/b", "revision": "v1"}),
    ],
)
def test_a_name_is_first_a_folder_then_a_repository(
    monkeypatch: pytest.MonkeyPatch, name: str, means: dict[str, str]
) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    assert named_model(name) == ModelDraft(**means)


# --- The newest commit


@pytest.mark.parametrize("name", ["bert-base-cased", "google-bert/bert-base-cased"])
def test_a_name_is_the_newest_commit_under_the_hubs_own_name(hub: HubServer, name: str) -> None:
    found = fetch(name)
    commit = hub.repos["models", "google-bert/bert-base-cased"].commit()
    assert found.at.source == f"hub:google-bert/bert-base-cased@{commit}"
    assert found.folder.name == commit
    hub.asked()
    assert fetch(name, offline=True) == fetch(name, commit) == found
    assert hub.asked() == []


def test_a_commit_that_another_program_has_under_the_older_name_is_not_downloaded_again(hub: HubServer) -> None:
    commit = hub.repos["models", "google-bert/bert-base-cased"].commit()
    folder = cached_snapshot("bert-base-cased", commit, FILES)
    assert fetch("google-bert/bert-base-cased") == FetchedModel(folder, fetch("bert-base-cased").at)
    assert not any("resolve" in request.path for request in hub.asked())


def test_a_newer_commit_is_taken_when_the_hub_has_one(hub: HubServer) -> None:
    first = fetch("bert-base-cased")
    hub.repos["models", "google-bert/bert-base-cased"].files = FILES | {"model.safetensors": b"other"}
    assert fetch("bert-base-cased").at != first.at
    assert fetch("bert-base-cased", first.at.revision) == first


def test_a_file_whose_bytes_changed_in_the_cache_is_downloaded_again_alone(hub: HubServer) -> None:
    found = fetch("bert-base-cased")
    path = found.folder / "model.safetensors"
    before = path.read_bytes()
    path.write_bytes(bytes([before[0] ^ 1]) + before[1:])
    hub.asked()
    assert "is damaged on this machine" in refused("bert-base-cased", offline=True)
    assert (fetch("bert-base-cased"), path.read_bytes()) == (found, before)
    assert {request.path.rpartition("/")[2] for request in hub.asked() if "resolve" in request.path} == {path.name}


# --- Offline


@pytest.mark.parametrize("given", [{"offline": True}, {}])
def test_offline_a_branch_is_the_commit_that_the_cache_has_it_at(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", not given)
    folder = cached_snapshot("acme/tiny", OLD, FILES, branch="main")
    cached_snapshot("acme/tiny", NEW, FILES)
    assert fetch("acme/tiny", "main", **given) == fetch("acme/tiny", **given) == fetch("acme/tiny", OLD, **given)
    assert fetch("tiny", **given).folder == folder
    assert hub.asked() == []


def test_offline_without_a_branch_the_newest_whole_snapshot_is_taken(hub: HubServer) -> None:
    whole = cached_snapshot("acme/tiny", OLD, FILES)
    half = cached_snapshot("acme/tiny", NEW, {"config.json": b"{}"})
    os.utime(whole, (1, 1))
    assert half.stat().st_mtime > whole.stat().st_mtime
    assert fetch("acme/tiny", offline=True).folder == whole


def test_offline_a_name_of_several_owners_is_asked_back(hub: HubServer) -> None:
    for owner in ("acme", "other"):
        cached_snapshot(f"{owner}/tiny", OLD, FILES, branch="main")
    assert refused("tiny", offline=True) == (
        "model tiny: the cache has several of this name. Say which: acme/tiny, other/tiny."
    )


@each("variable, value, is_off", [
     ("HF_HUB_OFFLINE", "1", True), ("HF_HUB_OFFLINE", "0", False), ("TRANSFORMERS_OFFLINE", "yes", True),
     ("HF_DATASETS_OFFLINE", "ON", True), ("HF_DATASETS_OFFLINE", "no", False)])  # fmt: skip
def test_the_libraries_own_switches_mean_offline(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, *, is_off: bool
) -> None:
    monkeypatch.setenv(variable, value)
    if variable != "HF_DATASETS_OFFLINE":  # the library reads the others when it is imported
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", constants._is_true(value))
    assert forbidden(offline=False, datasets=True) == (variable if is_off else None)


def test_what_the_switch_forbids_is_told_by_its_name(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert refused("acme/absent").startswith(
        "model acme/absent (main) is not on this machine and HF_HUB_OFFLINE forbids the download; run "
        "`permafrost data fetch --sweep FILE` or the same command without HF_HUB_OFFLINE first."
    )
    assert hub.asked() == []


# --- Misspelt


@pytest.mark.parametrize(
    ("name", "near"), [("my-modle", "my-model"), ("startr", "starter"), ("deep/modle", "deep/model")]
)
def test_a_misspelt_folder_is_told_with_what_is_near(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, near: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("my-model", "deep/model"):
        (tmp_path / folder).mkdir(parents=True)
    message = refused(name)
    assert message == (
        f"model {name} is not at {hub.url}, or is private. Nor is it a file or folder here. Did you mean {near!r}? "
        "Check the name; if it is private, log in (`hf auth login`, or set HF_TOKEN)."
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("./my-modle", r"no model folder at .*/my-modle\. Did you mean 'my-model'\? Give a folder"),
        ("bert-base-cased", r"has no config\.json, so it is no model\..* or write hub:"),
    ],
)
def test_a_folder_that_is_misspelt_or_no_model_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("my-model", "bert-base-cased"):
        (tmp_path / folder).mkdir()
    with pytest.raises(ModelError, match=words):
        find_model(named_model(name))


# --- Refused before its weights are downloaded


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "zebra", "auto_map": {"AutoModel": "modeling_zebra.Zebra"}},
         "model_type: 'zebra' is an architecture of code that came with the model (auto_map), which is never run"),
        ({"model_type": "t5"}, "t5 is refused"),
        ({"model_type": "bert", "quantization_config": {"quant_method": "gptq"}}, "its weights are quantised"),
    ],
)  # fmt: skip
def test_what_a_configuration_rules_out_is_refused_without_its_weights(
    hub: HubServer, config: dict[str, Any], words: str
) -> None:
    hub.repos["models", "acme/odd"] = model("acme/odd", FILES | {"config.json": json.dumps(config).encode()})
    with pytest.raises(ModelError, match=re.escape(words)):
        find_model(named_model("acme/odd"))
    assert not any("model.safetensors" in request.path for request in hub.asked())


def test_a_pickle_is_refused_and_the_pull_request_that_has_safetensors_is_not(hub: HubServer) -> None:
    pickle = {"config.json": b"{}", "pytorch_model.bin": b"p", "tokenizer.json": b"{}"}
    requests: dict[str, Files] = {"refs/pr/3": FILES}
    hub.repos["models", "acme/pickle"] = HubRepo("models", "acme/pickle", pickle, branches=requests)
    assert refused("acme/pickle").endswith(
        "else name a revision with model.safetensors, which is often waiting as a pull request (refs/pr/N)."
    )
    found = fetch("acme/pickle", "refs/pr/3")
    assert found.at.revision == hub.repos["models", "acme/pickle"].commit("refs/pr/3")
    assert fetch("acme/pickle", "refs/pr/3", offline=True) == found

"""Pushing a model folder, through the hub's real library against a server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from orchestrator.api.hub_push import open_target, push_folder
from tests.hub_repos import model
from tests.hub_writes import WritableHub
from trials.errors import ConfigError, MissingError, ModelError, PermafrostError, RefusedError

TOKEN = "hf_averysecrettoken"
NAME = "me/tagger"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WritableHub]:
    with WritableHub(model("me/old", {"README.md": b"mine", "pytorch_model.bin": b"w"})) as server:
        server.accepts = TOKEN
        monkeypatch.setattr(constants, "ENDPOINT", server.url)  # the library reads HF_ENDPOINT when it is imported
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("NO_PROXY", "*")
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/README.md").write_text("---\nlicense: mit\n---\n# A tagger")
    (tmp_path / "made/model.safetensors").write_bytes(b"w" * 5000)
    return tmp_path / "made"


def push(folder: Path, name: str = NAME, *, private: bool = True, overwrite: bool = False) -> str:
    return push_folder(folder, open_target(name, private=private, overwrite=overwrite), message="A model")


def refusal(error: type[PermafrostError], name: str = NAME, *, private: bool = True) -> str:
    with pytest.raises(error) as caught:
        open_target(name, private=private, overwrite=False)
    assert TOKEN not in str(caught.value)
    return str(caught.value)


def test_a_new_repository_is_private_and_gets_all_files_in_one_commit(hub: WritableHub, folder: Path) -> None:
    commit = push(folder)
    assert commit == hub.repos["models", NAME].commit()
    assert hub.private == {NAME}
    assert hub.files(NAME)["model.safetensors"] == b"w" * 5000
    assert sorted(hub.files(NAME)) == [".gitattributes", "README.md", "model.safetensors"]
    assert len(hub.commits) == 1


def test_it_is_public_only_if_asked(hub: WritableHub, folder: Path) -> None:
    push(folder, private=False)
    assert hub.private == set()


def test_a_repository_with_files_is_refused_and_unchanged(hub: WritableHub) -> None:
    assert refusal(RefusedError, "me/old") == (
        f"{hub.url}/me/old already holds 2 files. Choose another name, or say --overwrite to replace them in a new "
        "commit."
    )
    assert {request.method for request in hub.asked()} == {"GET"}


def test_overwriting_leaves_no_file_of_the_model_before(hub: WritableHub, folder: Path) -> None:
    push(folder, "me/old", private=False, overwrite=True)
    assert sorted(hub.files("me/old")) == ["README.md", "model.safetensors"]
    assert hub.files("me/old")["README.md"] == (folder / "README.md").read_bytes()


def test_a_public_repository_is_not_written_unless_public_is_said(hub: WritableHub, folder: Path) -> None:
    with pytest.raises(RefusedError, match=r"me/old is public\. Say --public"):
        push(folder, "me/old", overwrite=True)


def test_an_empty_repository_is_taken_as_the_same_command_may_have_made_it(hub: WritableHub, folder: Path) -> None:
    open_target(NAME, private=True, overwrite=False)
    push(folder)
    assert "README.md" in hub.files(NAME)


def test_a_repository_that_changed_meanwhile_is_not_written(hub: WritableHub, folder: Path) -> None:
    target = open_target("me/old", private=False, overwrite=True)
    hub.repos["models", "me/old"].files = {"new": b"by somebody else"}
    with pytest.raises(ModelError, match=r"was changed meanwhile\. Run the same command"):
        push_folder(folder, target, message="A model")
    assert list(hub.files("me/old")) == ["new"]


def test_without_a_token_nothing_is_asked(hub: WritableHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    assert "no token for the hub: log in (`hf auth login`, or set HF_TOKEN)" in refusal(MissingError)
    assert hub.asked() == []


def test_the_token_of_the_hubs_own_file_is_taken(
    hub: WritableHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    Path(constants.HF_TOKEN_PATH).write_text(f"{TOKEN}\n")
    push(folder)
    assert len(hub.commits) == 1  # the server accepts no other


def test_a_token_that_is_not_accepted_is_told(hub: WritableHub) -> None:
    hub.accepts = "hf_another"
    assert "does not accept the token of this machine (HTTP 401)" in refusal(ModelError)


def test_another_accounts_name_is_told(hub: WritableHub) -> None:
    assert refusal(ModelError, "you/tagger") == (
        "you/tagger was not pushed: the token of this machine may not write there (HTTP 403). Use one with the right "
        "to write repositories of you: log in (`hf auth login`, or set HF_TOKEN)."
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "knows no me, or no such repository (HTTP 404)"), (402, "refuses (HTTP 402)"), (429, "too many requests")],
)
def test_a_refusal_is_told_without_what_the_server_repeats_of_the_token(
    hub: WritableHub, status: int, words: str
) -> None:
    hub.status = status  # it repeats the token in its message
    assert words in refusal(ModelError)


def test_a_hub_out_of_reach_is_told(hub: WritableHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert refusal(ModelError).startswith("me/tagger was not pushed: cannot reach http://127.0.0.1:9 (")


def test_what_the_hub_has_against_a_card_is_told(hub: WritableHub, folder: Path) -> None:
    hub.bad_metadata = '"license" must be one of [mit]'
    with pytest.raises(ModelError, match=r'"license" must be one of \[mit\]'):
        push(folder)


@pytest.mark.parametrize("name", ["tagger", "me/../you", "https://hub/me/tagger"])
def test_what_is_no_name_is_refused_without_asking(hub: WritableHub, name: str) -> None:
    words = "lacks its owner. Write OWNER/NAME" if name == "tagger" else "is not a name on the hub, which is OWNER/NAME"
    assert words in refusal(ConfigError, name)
    assert hub.asked() == []

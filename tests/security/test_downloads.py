"""Servers that lie: names that lead elsewhere, endless answers, and secrets that no message may repeat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples import each
from tests.servers import LoopbackServer, Reply, Request, UdServer, git_digest
from trials.errors import DataError, ModelError
from trials.sources.download import Remote, download, get_json
from trials.sources.hub_client import Repo, explain, without_token
from trials.sources.places.treebank import fetch_treebank

NAME, RELEASE = "UD_English-EWT", "2.16"
WORD = b"1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n\n"
GOOD = {f"en_ewt-ud-{split}.conllu": WORD for split in ("train", "dev", "test")}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path


class Liar(LoopbackServer):
    """Answers everything with the same.

    Attributes:
        answer: What.
    """

    answer = Reply()

    def reply(self, request: Request, body: bytes) -> Reply:
        return self.answer


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Iterator[Liar]:
    with Liar() as running:
        monkeypatch.setenv("PERMAFROST_UD_URL", running.url)
        yield running


def fetch() -> str:
    with pytest.raises(DataError) as error:
        fetch_treebank(NAME, RELEASE, offline=False)
    return str(error.value)


EVIL = (
    "../../../evil-ud-train.conllu", "/tmp/evil-ud-train.conllu", "a/b-ud-train.conllu", "..\\evil-ud-train.conllu",
    "LICENSE/../../evil", "README\0.md", "-ud-train.conllu/..", "evil-ud-train.conllu\n", "manifest.json", ".lock",
)  # fmt: skip


def test_files_of_a_listing_that_lead_elsewhere_are_not_fetched(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with UdServer({(NAME, RELEASE): GOOD | dict.fromkeys(EVIL, b"evil")}) as server:
        monkeypatch.setenv("PERMAFROST_UD_URL", server.url)
        found = fetch_treebank(NAME, RELEASE, offline=False)
        assert set(found.files) == set(GOOD)
    written = {path.name for path in here.rglob("*") if path.is_file()}
    assert written == {*GOOD, "manifest.json", ".lock"}


def listing(**changes: Any) -> bytes:
    entry = {
        "type": "file",
        "name": "a-ud-train.conllu",
        "size": 3,
        "sha": git_digest(b"abc"),
        "download_url": "http://a/",
    }
    return json.dumps([entry | changes]).encode()


@each("body", [
        b"", b"[", b"{}", b"3", b"null", b'"x"', b"[3]", b"[[]]", b"[{}]", b"[" * 100_000, b'{"a":' * 100_000,
        b"\xff\xfe", b"9" * 5000, listing(size="3"), listing(size=None), listing(size=-1), listing(size=10**18),
        listing(size=1.5), listing(sha=None), listing(download_url=None), listing(name=None), listing(name=3),
        listing(download_url="file:///etc/passwd"), listing(download_url="http://[bad"),
        listing(download_url="ftp://a/b"), listing(download_url="http://\0/"),
        listing(download_url="http://" + "a" * 300), listing(download_url="//a/b"),
        listing(download_url="javascript:alert(1)"), listing(download_url="http://a:99999999/"),
    ])  # fmt: skip
def test_a_listing_that_is_none_is_one_message(body: bytes, liar: Liar) -> None:
    liar.answer = Reply(body=body)
    message = fetch()
    assert message.isprintable()
    assert "/etc/passwd: cannot" not in message


def test_a_file_longer_than_listed_is_not_read_to_its_end(liar: Liar, here: Path) -> None:
    liar.answer = Reply(body=b"x" * 50_000_000)
    with pytest.raises(DataError, match="its digest is"):
        download(Remote(f"{liar.url}/x", 3, git_digest(b"abc")), here / "x")
    assert list(here.iterdir()) == []


@each("path", ["", "/x?token=hush", "/x#hush"])
@each("host", ["127.0.0.1:1", "[bad", "nobody.invalid:99999999", "h\0ost", "a b"])
def test_a_password_in_an_address_is_in_no_message(host: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://me:hush@{host}{path}"
    with pytest.raises(DataError) as error:
        get_json(url)
    assert "hush" not in str(error.value)
    with pytest.raises(DataError) as error:
        download(Remote(url, 3, "0" * 40), Path("x"))
    assert "hush" not in str(error.value)
    monkeypatch.setenv("PERMAFROST_UD_URL", url.replace("\0", ""))
    assert "hush" not in fetch()


@each("proxy", ["http://me:hush@[bad", "socks9://me:hush@a:1", "me:hush@a", "http://me:hush@a:99999999"])
def test_a_password_in_a_proxys_address_is_in_no_message(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    with pytest.raises(DataError) as error:
        get_json("http://nobody.invalid/x")
    assert "hush" not in str(error.value)


def test_a_password_in_the_hubs_address_is_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://me:hush@127.0.0.1:1")
    errors = (
        OSError("GET http://me:hush@127.0.0.1:1/api failed"),
        ConnectionError("http://me:hush@a"),
        ValueError("x"),
    )
    for error in errors:
        for repo in (Repo("models", "a/b", "main"), Repo("datasets", "a/b", "main")):
            assert "hush" not in explain(error, repo)
    assert without_token("https://me:hush@host/x and http://hf_abcdefghijk@b") == "https://***@host/x and http://***@b"


@each("kind", ["models", "datasets"])
@each("name", ["../..", "a/..", "../a", "a/b/../c", "/a/b", "a\\b/c", "a/b\n", "a/%2e%2e", "a--b/c", "é/b"])
def test_a_repository_of_such_a_name_is_refused(kind: str, name: str) -> None:
    with pytest.raises((DataError, ModelError), match="is not a name on the hub"):
        Repo(kind, name, "main")

"""One file over HTTP: whole and verified, or not there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import each
from tests.servers import UdServer, git_digest
from trials.errors import DataError
from trials.outside.plain_files import progress
from trials.sources.download import Remote, download, get_json, safe_address

CONTENT = bytes(range(256)) * 400  # some TCP packets
TREEBANK = ("UD_Tiny-Test", "2.16")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)


@pytest.fixture
def server() -> Iterator[UdServer]:
    with UdServer({TREEBANK: {"x.txt": CONTENT, "empty.txt": b""}}) as running:
        yield running


def remote(server: UdServer, name: str = "x.txt") -> Remote:
    content = server.treebanks[TREEBANK].get(name, CONTENT)
    return Remote(f"{server.url}/raw/{'/'.join(TREEBANK)}/{name}", len(content), git_digest(content))


def refusal(source: Remote, path: Path) -> str:
    with pytest.raises(DataError) as error:
        download(source, path)
    return str(error.value).replace(source.url, "URL")


def test_a_file_comes_whole_under_its_own_name_and_progress_tells_its_bytes(server: UdServer, tmp_path: Path) -> None:
    told: list[tuple[str, str, int, int | None]] = []
    before = progress.set(lambda *step: told.append(step))
    for _ in range(2):
        download(remote(server), tmp_path / "x.txt")
    progress.reset(before)
    assert (tmp_path / "x.txt").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]
    assert len(server.asked()) == 1  # what is there already is not asked for
    assert told[-1] == ("download", "x.txt", len(CONTENT), len(CONTENT))
    assert [step[2] for step in told] == sorted(step[2] for step in told)
    download(remote(server, "empty.txt"), tmp_path / "e")
    assert (tmp_path / "e").read_bytes() == b""


def test_a_connection_that_was_cut_is_told_and_the_next_run_has_the_file(server: UdServer, tmp_path: Path) -> None:
    server.cuts["x.txt"] = [1000]
    message = refusal(remote(server), tmp_path / "x.txt")
    assert message.startswith("URL: cannot be fetched (")
    assert "run the same command again" in message
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt.part"]
    download(remote(server), tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_bytes() == CONTENT


def test_other_bytes_than_listed_are_thrown_away_and_both_digests_told(server: UdServer, tmp_path: Path) -> None:
    server.wrong.add("x.txt")
    message = refusal(remote(server), tmp_path / "x.txt")
    found, expected = git_digest(CONTENT[::-1]), git_digest(CONTENT)
    assert message.startswith(f"URL: its digest is {found}, expected {expected}; the download was discarded. Try again")
    assert list(tmp_path.iterdir()) == []


@each("status, headers, words", [
        (404, {}, "no such file. It may have been moved or deleted (HTTP 404)."),
        (403, {}, "access refused. Remove or renew GITHUB_TOKEN if it is set; else a proxy may block"),
        (401, {}, "access refused. "),
        (429, {}, "too many requests from this address. Try again in an hour, or set GITHUB_TOKEN (HTTP 429)."),
        (403, {"X-RateLimit-Remaining": "0"}, "too many requests from this address. Try again in an hour"),
        (418, {}, "unexpected answer. Try again later (HTTP 418)."),
    ])  # fmt: skip
def test_a_refusal_is_told_at_once_with_its_way_out(
    server: UdServer, tmp_path: Path, status: int, headers: dict[str, str], words: str
) -> None:
    server.status, server.extra = status, headers
    assert refusal(remote(server), tmp_path / "x.txt").startswith(f"URL: {words}")
    assert len(server.asked()) == 1


def test_no_connection_is_told_at_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = Remote(f"http://127.0.0.1:{free.getsockname()[1]}/x", 1, "0" * 40)
        message = refusal(nobody, tmp_path / "x.txt")
        assert message.startswith("URL: cannot be fetched (")
        assert message.endswith("or work with what is on this machine (--offline).")


def test_a_folder_that_cannot_be_written_is_named(server: UdServer, tmp_path: Path) -> None:
    (tmp_path / "x.txt.part").mkdir()
    message = refusal(remote(server), tmp_path / "x.txt")
    assert message.startswith(f"{tmp_path / 'x.txt'}: cannot be written (")
    assert message.endswith("Make room there, or set PERMAFROST_CACHE to another folder.")


def test_the_token_goes_to_no_other_host_and_into_no_message(
    server: UdServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    assert isinstance(get_json(f"{server.url}/repos/UniversalDependencies/{TREEBANK[0]}/contents?ref=r2.16"), list)
    download(remote(server), tmp_path / "x.txt")
    assert not any("ghp_secret" in str(request.headers) for request in server.asked())
    assert safe_address("https://me:ghp_secret@host/x?token=ghp_secret") == "https://host/x"


def test_an_answer_that_is_no_json_is_named(server: UdServer) -> None:
    with pytest.raises(DataError, match=r"/x\.txt: the answer is not JSON\. It may come from a proxy"):
        get_json(remote(server).url)

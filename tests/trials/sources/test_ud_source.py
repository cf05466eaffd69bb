"""Treebanks from a repository's release: fetched once, verified, and then here without a network."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.examples import each, refusal_of
from tests.servers import Files, UdServer
from trials.errors import DataError
from trials.sources.cache import FetchedCorpus, cache_root, fetched_corpora
from trials.sources.places.treebank import fetch_treebank
from trials.starter import BUNDLED_TREEBANKS

NAME, RELEASE = "UD_English-EWT", "2.16"
SAMPLE = BUNDLED_TREEBANKS[f"{NAME}-sample"]
LICENCE = "Creative Commons License Attribution-ShareAlike 4.0 International"


def treebank_files() -> dict[str, bytes]:
    splits = {
        f"en_ewt-ud-{split}.conllu": (SAMPLE / f"{split}.conllu").read_bytes() for split in ("train", "dev", "test")
    }
    licence = f"\n{LICENCE}\n\nhttps://...\n".encode()
    return splits | {"LICENSE.txt": licence, "README.md": b"# Summary\n", "stats.xml": b"<x/>", "eval.log": b"4 stars"}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UdServer]:
    with UdServer({(NAME, RELEASE): treebank_files()}) as running:
        monkeypatch.setenv("PERMAFROST_UD_URL", running.url)
        monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "*")
        yield running


def fetch(name: str = NAME, release: str = RELEASE, *, offline: bool = False) -> FetchedCorpus:
    return fetch_treebank(name, release, offline=offline)


refusal = refusal_of(fetch, DataError)


def serve(server: UdServer, files: Files) -> None:
    server.treebanks = {(NAME, RELEASE): files}


def test_a_treebank_comes_with_its_splits_licence_and_readme_and_is_not_asked_for_again(server: UdServer) -> None:
    found = fetch()
    splits = [f"en_ewt-ud-{split}.conllu" for split in ("dev", "test", "train")]
    assert found.files == ("LICENSE.txt", "README.md", *splits)
    assert (found.name, found.kind, found.source) == (NAME, "ud", "ud:UD_English-EWT@2.16")
    assert (found.licence, found.folder) == (LICENCE, cache_root() / "ud" / NAME / RELEASE)
    assert found.n_bytes == sum((found.folder / file).stat().st_size for file in found.files)
    for split, (path,) in found.splits.items():
        assert path.read_bytes() == (SAMPLE / f"{split}.conllu").read_bytes()
    for file in json.loads((found.folder / "manifest.json").read_text())["files"]:
        content = (found.folder / file["name"]).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert fetched_corpora() == [found]
    assert len(server.asked()) == 1 + len(found.files)
    assert fetch() == fetch(offline=True) == found
    assert server.asked() == []


def test_a_file_that_is_gone_from_the_cache_or_has_other_bytes_is_fetched_again_alone(server: UdServer) -> None:
    found = fetch()
    path = found.folder / "en_ewt-ud-dev.conllu"
    before, status = path.read_bytes(), path.stat()
    path.write_bytes(before.replace(b"NOUN", b"VERB", 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    server.asked()
    assert "is not on this machine" in refusal(offline=True)
    assert (fetch(), path.read_bytes()) == (found, before)
    path.unlink()
    assert (fetch(), path.read_bytes()) == (found, before)
    assert [request.path.rpartition("/")[2] for request in server.asked()] == ["contents?ref=r2.16", path.name] * 2


def test_an_unfinished_treebank_is_not_listed_and_the_next_run_fetches_what_it_lacks(server: UdServer) -> None:
    server.cuts["en_ewt-ud-test.conllu"] = [300]
    assert "cannot be fetched" in refusal()
    assert fetched_corpora() == []
    server.asked()
    found = fetch()
    _, test, train = server.asked()
    assert test.path.endswith("en_ewt-ud-test.conllu")
    assert train.path.endswith("en_ewt-ud-train.conllu")
    assert fetched_corpora() == [found]


def test_two_who_fetch_the_same_at_once_download_it_once(server: UdServer) -> None:
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: fetch(), range(2))
    assert first == second
    assert len(server.asked()) == 1 + len(first.files)


def test_a_split_in_several_files_is_one_split(server: UdServer) -> None:
    part = (SAMPLE / "dev.conllu").read_bytes()
    serve(server, {f"de_hdt-ud-{name}.conllu": part for name in ("train-a-1", "train-b-2", "dev", "test")})
    found = fetch()
    assert [path.name for path in found.splits["train"]] == ["de_hdt-ud-train-a-1.conllu", "de_hdt-ud-train-b-2.conllu"]


@pytest.mark.parametrize(
    ("files", "licence"),
    [
        ({"README.txt": b"# About\nLicense: CC BY-SA 4.0\n"}, "CC BY-SA 4.0"),
        ({"LICENSE.txt": b"x" * 100}, "x" * 77 + "..."),
        ({"README.md": b"free for all\n"}, None),
    ],
)
def test_the_licence_is_the_licence_files_first_line_or_what_the_readme_states(
    server: UdServer, files: Files, licence: str | None
) -> None:
    serve(server, {"x-ud-train.conllu": b"", **files})
    assert fetch().licence == licence


def test_offline_and_absent_is_told_without_asking(server: UdServer) -> None:
    message = refusal(offline=True)
    assert message == (
        "UD_English-EWT 2.16 is not on this machine and --offline forbids the download; "
        "run `permafrost data fetch ud:UD_English-EWT@2.16` first."
    )
    assert server.asked() == []


@pytest.mark.parametrize(("name", "release"), [("UD_English-ETW", "2.16"), (NAME, "2.99")])
def test_a_treebank_or_release_that_nobody_published_is_named(server: UdServer, name: str, release: str) -> None:
    message = refusal(name, release)
    assert message.startswith(f"no treebank {name} with a release {release} at {server.url}. Look up the name")
    assert message.endswith(f"/{name}/tags.")


@each(
    "name, release, rule",
    [
        *(
            (name, RELEASE, "is not a treebank's name, which is UD_LANGUAGE-NAME, e.g. UD_English-EWT.")
            for name in ("EWT", "UD_English", "../UD_English-EWT", "UD_English-EWT/..", "UD_English-EWT\n")
        ),
        *(
            (NAME, release, f"{release!r} is not a release of Universal Dependencies, which is e.g. 2.16.")
            for release in ("", "2", "r2.16", "latest", "../2.16")
        ),
    ],
)
def test_what_cannot_be_a_name_or_release_is_refused_without_asking(
    server: UdServer, name: str, release: str, rule: str
) -> None:
    assert refusal(name, release).endswith(rule)
    assert server.asked() == []


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"PERMAFROST_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/permafrost"),
        ({"HOME": "/c"}, "/c/.cache/permafrost"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], root: str
) -> None:
    for name in ("PERMAFROST_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_root() == Path(root)

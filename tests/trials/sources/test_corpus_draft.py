"""A corpus in a person's words: five ways to name one, and never two at once."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import write_conllu, write_texts, write_treebank
from tests.examples import each, refusal_of
from tests.servers import UdServer
from trials.corpora.converted import conversion_of
from trials.corpora.corpus import load_corpus
from trials.errors import DataError
from trials.sources.places import local_files
from trials.sources.places.corpus_draft import DataDraft
from trials.spec import Columns, DataSpec
from trials.tasks import TASKS

UD = ("UD_Tiny-Test", "2.10")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_treebank(tmp_path / "tiny", train=5, dev=3, test=2)


def draft(**settings: Any) -> DataDraft:
    return DataDraft.model_validate(settings)


invalid = refusal_of(draft, ValidationError)
refusal = refusal_of(lambda **settings: draft(**settings).resolve(), DataError)


def sizes(data: DataSpec) -> tuple[int, int, int]:
    corpus = load_corpus(data)
    return len(corpus.train), len(corpus.dev), len(corpus.test)


WAYS: dict[str, dict[str, Any]] = {
    "bundled": {"bundled": "UD_Naija-NSC-sample"},
    "folder": {"folder": "a"},
    "files": {"train": "a", "dev": "b"},
    "ud": {"ud": "UD_A-B", "release": "2.16"},
    "hub": {"hub": "a/b", "revision": "main"},
}


@each("way", WAYS)
def test_each_way_alone_is_a_corpus(way: str) -> None:
    assert draft(**WAYS[way]).model_dump(exclude_defaults=True).keys() == WAYS[way].keys()


@each("one, other", list(itertools.combinations(WAYS, 2)))
def test_two_ways_at_once_are_refused(one: str, other: str) -> None:
    assert "name the corpus in one way: " in invalid(**WAYS[one], **WAYS[other])


@each(
    "settings, said",
    [
        ({"folder": "a", "release": "2.16"}, "`release` is of a treebank, `ud`"),
        ({"folder": "a", "revision": "main"}, "`config`, `splits` and `revision` are of a dataset of the `hub`"),
        ({"folder": "a", "config": "sst2"}, "`config`, `splits` and `revision` are of a dataset of the `hub`"),
        ({"folder": "a", "splits": {"dev": "x"}}, "`config`, `splits` and `revision` are of a dataset of the `hub`"),
        ({"hub": "a/b", "revision": "c", "splits": {"valid": "x"}}, "unknown 'valid'"),
        ({"ud": "UD_A-B", "release": 2.16}, "write it in quotes, '2.16', as 2.10 and 2.1 are one number but two"),
        ({"folder": "a", "scheme": "bio"}, "scheme"),
        ({"folder": "a", "format": "tsvv"}, "unknown 'tsvv', did you mean 'tsv'?"),
        ({"folder": "a", "columns": {"tag": "upos"}}, "columns.tag"),
        ({}, "name the corpus in one way: `bundled`, `folder`, `train` and `dev`, `ud`, or `hub`"),
        ({"train": "a"}, "or `held_out: 0.1` instead of `dev`; `test` may be left out"),
        ({"test": "a"}, "or `held_out: 0.1` instead of `dev`; `test` may be left out"),
        ({"folder": "a", "name": "a/b"}, "String should match pattern"),
    ],
)
def test_what_does_not_belong_together_is_refused(settings: dict[str, Any], said: str) -> None:
    assert said in invalid(**settings)


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        ("train.conllu", "dev.conllu"),
        ("xx_y-ud-train.conllu", "xx_y-ud-dev.conllu"),
        ("train-part.conllu", "valid.conllu"),
        ("my.Train.conllu", "val.conllu"),
    ],
)
def test_a_folders_files_are_told_by_the_words_of_their_names(train: str, dev: str, folder: Path) -> None:
    (folder / "train.conllu").rename(folder / train)
    (folder / "dev.conllu").rename(folder / dev)
    (folder / "retrained.conllu").write_text("")  # holds the letters, not the word
    (folder / "train.md").write_text("about")
    data = draft(folder=str(folder)).resolve()
    assert (data.train, data.dev) == ((str(folder / train),), (str(folder / dev),))
    assert sizes(data) == (5, 3, 2)


def test_a_split_may_be_several_files_read_in_their_order(folder: Path) -> None:
    more = write_conllu(folder / "more.conllu", [[("new", "X")]])
    files = {"train": [str(folder / "train.conllu"), str(more)], "dev": str(folder / "dev.conllu")}
    data = draft(**files).resolve()
    assert sizes(data) == (6, 3, 0)
    assert load_corpus(data).train[-1][0] == ("new",)
    turned = draft(**(files | {"train": files["train"][::-1]})).resolve()
    assert turned.fingerprint != data.fingerprint


def resolved(folder: Path) -> DataSpec:
    return draft(folder=str(folder)).resolve()


@each("name, format_", [("train.tsv", "tsv"), ("train.csv", "csv"), ("train.jsonl", "jsonl"), ("train.iob2", "columns"),
     ("train.TXT", "columns"), ("train.parquet", "parquet"), ("train.conllu.gz", "conllu")])  # fmt: skip
def test_a_suffix_says_the_format(name: str, format_: str, tmp_path: Path) -> None:
    files = {"train": str(tmp_path / name), "dev": str(tmp_path / name.replace("train", "dev"))}
    for split, path in files.items():
        Path(path).write_text(split)
    assert draft(**files).resolve().format == format_
    assert draft(**files, format="tsv").resolve().format == "tsv"


def test_files_of_several_or_unknown_formats_are_refused_unless_one_is_given(tmp_path: Path) -> None:
    files = {"train": str(tmp_path / "train.tsv"), "dev": str(tmp_path / "dev.data")}
    for split, path in files.items():
        Path(path).write_text(split)
    message = refusal(**files)
    assert message.startswith(f"{files['dev']}: its name does not say its format. Give `format`: ")
    assert "columns, conllu, csv, jsonl, parquet, tsv; or end the name in .conllu, " in message
    other = {**files, "dev": str(shutil.copy(files["dev"], tmp_path / "dev.csv"))}
    assert refusal(**other).startswith("the files of one corpus are in several formats: ")
    assert draft(**other, format="tsv").resolve().format == "tsv"


def test_tables_are_asked_for_the_tasks_columns_and_other_files_for_none(folder: Path, tmp_path: Path) -> None:
    table = draft(folder=str(write_texts(tmp_path / "texts")))
    assert table.resolve(TASKS["sst2"].columns).columns == Columns(text="sentence", label="label")
    assert draft(folder=str(folder)).resolve(TASKS["pos"].columns).columns == Columns()
    mine = Columns(text="sentence2", label="score")
    assert table.model_copy(update={"columns": mine}).resolve(TASKS["sst2"].columns).columns == mine


@pytest.fixture
def server(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UdServer]:
    files = {f"xx_tiny-ud-{path.name}": path.read_bytes() for path in folder.iterdir()}
    with UdServer({UD: files | {"LICENSE.txt": b"CC BY-SA 4.0\n", "README.md": b"# Summary\n"}}) as running:
        monkeypatch.setenv("PERMAFROST_UD_URL", running.url)
        monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "*")
        yield running


def test_a_treebank_of_a_release_is_the_corpus_of_its_files(server: UdServer, folder: Path) -> None:
    data = draft(ud=UD[0], release=UD[1]).resolve()
    assert (data.name, data.source, data.format) == (UD[0], "ud:UD_Tiny-Test@2.10", "conllu")
    assert sizes(data) == (5, 3, 2)
    assert data.fingerprint == resolved(folder).fingerprint


@pytest.mark.parametrize("first", [{"train": 5, "dev": 2, "test": 1}, {"dev": 3}, {"test": 0}], ids=str)
def test_the_first_items_of_a_split_are_those_of_the_whole(first: dict[str, int], tmp_path: Path) -> None:
    folder = str(write_treebank(tmp_path / "tiny", train=8, dev=4, test=4))
    whole = load_corpus(DataDraft(folder=folder).resolve())
    some = load_corpus(DataDraft.model_validate({"folder": folder, "first": first}).resolve())
    for split in ("train", "dev", "test"):
        assert getattr(some, split) == getattr(whole, split)[: first.get(split)]


# --- Texts in folders of classes become JSON lines in the cache, which are those of the texts as they are now.


@pytest.fixture
def classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    for name in ("neg", "pos"):
        (tmp_path / "texts" / name).mkdir(parents=True)
        for n in range(3):
            (tmp_path / "texts" / name / f"{n}.txt").write_text(f"{name} {n}")
    return tmp_path / "texts"


def lines(folder: Path) -> tuple[Path, list[str]]:
    """The file in the cache, and its texts."""
    found = conversion_of(folder)
    assert found is not None
    (path,) = map(Path, local_files._write_splits(found)["train"])
    return path, [json.loads(line)["text"] for line in path.read_text().splitlines()]


def edit(path: Path) -> None:
    status = path.stat()
    path.write_text(path.read_text().replace("neg", "nag"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "damage",
    [edit, lambda path: os.truncate(path, 9), Path.unlink, lambda path: (path.parent / "manifest.json").unlink()],
)
def test_lines_that_changed_in_the_cache_are_written_again(damage: Callable[[Path], object], classes: Path) -> None:
    path, texts = lines(classes)
    damage(path)
    assert lines(classes) == (path, texts)
    written = path.stat()
    assert (lines(classes), path.stat()) == ((path, texts), written)


def test_a_text_that_was_edited_under_its_old_size_and_time_is_read_again(classes: Path) -> None:
    _, texts = lines(classes)
    edit(classes / "neg" / "0.txt")
    assert lines(classes)[1] == ["nag 0", *texts[1:]]

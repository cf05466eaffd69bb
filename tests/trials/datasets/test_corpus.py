"""A corpus is identified by its bytes, and a split is neither empty nor another one's copy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.builders import write_conllu, write_treebank
from trials.datasets.corpus import CORPUS_FORMATS, Sentence, fingerprint, load_corpus
from trials.errors import DataError
from trials.settings import DataSpec
from trials.sources.corpus_draft import DataDraft
from trials.tasks.reading import read_corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_treebank(tmp_path / "tiny", train=5, dev=3, test=2)


def planned(folder: Path) -> DataSpec:
    return DataDraft(folder=str(folder)).resolve()


def test_every_split_is_read(folder: Path) -> None:
    corpus = load_corpus(planned(folder))
    assert (len(corpus.train), len(corpus.dev), len(corpus.test)) == (5, 3, 2)
    assert isinstance(corpus.train[0], Sentence)
    assert corpus.train[0].forms == ("the", "word0")


def test_the_test_split_may_be_absent(tmp_path: Path) -> None:
    data = planned(write_treebank(tmp_path / "tiny", test=0))
    assert data.test == ()
    assert load_corpus(data).test == []


def test_the_fingerprint_is_of_the_bytes_and_not_of_the_place(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "moved")
    assert planned(tmp_path / "moved").fingerprint == planned(folder).fingerprint


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_one_byte_more_is_another_fingerprint(folder: Path, split: str) -> None:
    before = planned(folder).fingerprint
    with (folder / f"{split}.conllu").open("a") as file:
        file.write("\n")
    assert planned(folder).fingerprint != before


def test_the_fingerprint_knows_which_split_is_which(folder: Path) -> None:
    train, dev, test = ((str(folder / f"{split}.conllu"),) for split in ("train", "dev", "test"))
    found = {fingerprint(*order) for order in ((train, dev, test), (dev, train, test), (train, test, dev))}
    assert len(found | {fingerprint(train, dev, ())}) == 4


@pytest.mark.parametrize(("copy", "original"), [("dev", "train"), ("test", "train")])
def test_two_splits_of_the_same_text_are_refused(folder: Path, copy: str, original: str) -> None:
    shutil.copy(folder / f"{original}.conllu", folder / f"{copy}.conllu")
    with pytest.raises(DataError) as error:
        planned(folder)
    text = f"the {copy} split is identical to {original}; scores would be meaningless."
    assert str(error.value) == f"{folder / f'{copy}.conllu'}: {text}"


def test_a_test_file_that_is_a_copy_of_dev_is_left_out_of_a_folder_and_refused_by_name(folder: Path) -> None:
    shutil.copy(folder / "dev.conllu", folder / "test.conllu")
    data = planned(folder)
    assert (data.test, data.notes[0].partition(",")[0]) == (
        (),
        "test.conllu is left out: it is identical to dev.conllu",
    )
    files = {split: str(folder / f"{split}.conllu") for split in ("train", "dev", "test")}
    with pytest.raises(DataError, match=r"the test split is identical to dev; scores would be meaningless"):
        DataDraft.model_validate(files).resolve()


def test_a_file_that_changed_after_the_plan_is_refused(folder: Path) -> None:
    data = planned(folder)
    write_conllu(folder / "dev.conllu", [[("new", "ADJ")]])
    with pytest.raises(
        DataError, match=r"^tiny: its files changed since the sweep was planned .* back, or launch again"
    ):
        load_corpus(data)


def test_a_file_that_changes_while_it_is_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read = planned(folder), CORPUS_FORMATS["conllu"]

    def edited(path: Path, *options: Any) -> Any:
        write_conllu(path, [[("new", "ADJ")]])
        return read(path, *options)

    monkeypatch.setitem(CORPUS_FORMATS._plugins, "conllu", edited)
    with pytest.raises(DataError, match="its files changed"):
        load_corpus(data)


def test_a_file_that_vanished_after_the_plan_is_refused(folder: Path) -> None:
    data = planned(folder)
    (folder / "dev.conllu").unlink()
    with pytest.raises(DataError, match=r"dev\.conllu: the dev split cannot be read \(No such file or directory\)"):
        load_corpus(data)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_split_without_sentences_is_refused(folder: Path, split: str) -> None:
    (folder / f"{split}.conllu").write_text("\n")
    with pytest.raises(DataError) as error:
        load_corpus(planned(folder))
    path = folder / f"{split}.conllu"
    assert str(error.value) == f"{path}: the {split} split is empty. Give a file with sentences."


def test_a_corpus_is_read_once_a_process_whether_its_sizes_are_known_or_not(folder: Path) -> None:
    data = planned(folder)
    assert read_corpus("pos", data) is read_corpus("pos", data.model_copy(update={"sizes": (1, 1, 0)}))


# --- Without a dev split


def without_dev(folder: Path, n_train: int, share: float = 0.1) -> DataSpec:
    write_treebank(folder, train=n_train, dev=1, test=1)
    (folder / "dev.conllu").unlink()
    return DataDraft(folder=str(folder), held_out=share).resolve()


def test_a_share_of_train_serves_as_dev_and_no_sentence_is_lost(tmp_path: Path) -> None:
    corpus = load_corpus(without_dev(tmp_path / "a", 400))
    assert 20 <= len(corpus.dev) <= 60
    assert len(corpus.train) + len(corpus.dev) == 400
    assert not {item[0] for item in corpus.train} & {item[0] for item in corpus.dev}


def test_a_sentence_stays_on_its_side_when_others_are_added(tmp_path: Path) -> None:
    few, many = (load_corpus(without_dev(tmp_path / str(n), n)) for n in (200, 400))
    assert {item[0] for item in few.dev} == {item[0] for item in many.dev} & {item[0] for item in few.train + few.dev}


def test_a_share_that_leaves_a_side_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"held_out 0\.001 of 3 train items leaves dev empty"):
        load_corpus(without_dev(tmp_path / "a", 3, 0.001))


def test_nothing_is_held_out_beside_a_dev_split(folder: Path) -> None:
    with pytest.raises(DataError, match=r"tiny: has a dev split\. Leave `held_out` out\."):
        DataDraft(folder=str(folder), held_out=0.1).resolve()


def test_one_file_may_be_all_there_is(tmp_path: Path) -> None:
    write_treebank(tmp_path / "a", train=50, dev=1, test=0)
    (tmp_path / "a" / "dev.conllu").unlink()
    (tmp_path / "a" / "train.conllu").rename(tmp_path / "a" / "all.conllu")
    assert load_corpus(DataDraft(folder=str(tmp_path / "a"), held_out=0.2).resolve()).dev

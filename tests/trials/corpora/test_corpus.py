"""A corpus is identified by its bytes, and a split is neither empty nor another one's copy."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.own_data.corpus_check import LENGTHS, check_corpus
from tests.builders import write_conllu, write_treebank
from trials.corpora import text_file
from trials.corpora.corpus import Corpus, Item, Sentence, fingerprint, labels_of, load_corpus
from trials.corpora.formats.table_reader import read_parquet
from trials.corpora.text_file import BYTES_PER_BYTE, read_lines
from trials.errors import DataError
from trials.sources.places.corpus_draft import DataDraft
from trials.spec import Columns, DataSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_treebank(tmp_path / "tiny", train=5, dev=3, test=2)


def planned(folder: Path) -> DataSpec:
    return DataDraft(folder=str(folder)).resolve()


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


def test_a_file_that_changed_or_vanished_after_the_plan_is_refused(folder: Path) -> None:
    data = planned(folder)
    write_conllu(folder / "dev.conllu", [[("new", "ADJ")]])
    with pytest.raises(DataError, match=r"^tiny: its files changed since the sweep was planned .* or launch again"):
        load_corpus(data)
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


# --- Cross-validation


def in_folds(folder: Path, n_train: int, folds: int) -> list[Corpus]:
    """The corpus under as many seeds as it has folds."""
    without_dev(folder, n_train)
    data = DataDraft(folder=str(folder), folds=folds).resolve()
    return [load_corpus(data.for_seed(seed)) for seed in range(folds)]


def test_every_item_is_in_the_dev_split_of_one_fold_and_in_train_of_the_others(tmp_path: Path) -> None:
    corpora = in_folds(tmp_path / "a", 23, 5)
    assert sorted(len(corpus.dev) for corpus in corpora) == [4, 4, 5, 5, 5]
    assert {len(corpus.train) for corpus in corpora} == {18}
    assert len({item[0] for corpus in corpora for item in corpus.dev}) == 23
    assert all(not {item[0] for item in corpus.train} & {item[0] for item in corpus.dev} for corpus in corpora)


def test_documents_stay_in_one_fold(tmp_path: Path) -> None:
    lines = "".join(
        f"# newdoc id = d{document}\n" * (not n) + f"1\tw{document}.{n}\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n"
        for document, size in enumerate((9, 5, 4, 3, 2, 1))
        for n in range(size)
    )
    (tmp_path / "train.conllu").write_text(lines, encoding="utf-8")
    data = DataDraft(folder=str(tmp_path), folds=4).resolve()
    corpora = [load_corpus(data.for_seed(seed)) for seed in range(4)]
    assert sorted(len(corpus.dev) for corpus in corpora) == [5, 5, 5, 9]
    assert {len(corpus.train) for corpus in corpora} == {15}
    assert all(not {i.document for i in c.train} & {i.document for i in c.dev} for c in corpora)


def test_a_share_or_folds_that_leave_one_empty_or_stand_beside_a_dev_split_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"held_out 0\.001 of 3 train items leaves dev empty"):
        load_corpus(without_dev(tmp_path / "a", 3, 0.001))
    with pytest.raises(DataError, match=r"`folds: 5` \(--folds\) of 3 different items leaves some empty"):
        in_folds(tmp_path / "a", 3, 5)
    with pytest.raises(ValueError, match="`held_out` and `folds` both make a dev split"):
        DataDraft(folder=str(folder), held_out=0.1, folds=5)
    for key, value in {"held_out": 0.1, "folds": 5}.items():
        with pytest.raises(DataError, match=rf"tiny: has a dev split\. Leave `{key}` out\."):
            DataDraft.model_validate({"folder": str(folder), key: value}).resolve()


# --- A corpus looked over: histogram, duplicates, labels.


TAGS = ("A", "B", "C")


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    """Of few words, so that some are said twice, and now and then of many."""
    tags = draw(st.lists(st.sampled_from(TAGS), min_size=1, max_size=3)) * draw(st.sampled_from([1, 1, 1, 7, 40]))
    return Sentence(tuple(tag.lower() for tag in tags), tuple(tags))


SPLIT = st.lists(sentences(), min_size=1, max_size=12)


@given(SPLIT, SPLIT, SPLIT)
def test_every_item_word_and_label_is_counted_once(train: list[Item], dev: list[Item], test: list[Item]) -> None:
    found = check_corpus(Corpus(train, dev, test))
    for name, items in (("train", train), ("dev", dev), ("test", test)):
        split = found.splits[name]
        tags = Counter(tag for item in items for tag in labels_of(item))
        assert (split.items, split.words, split.labels) == (len(items), tags.total(), dict(tags))
        assert list(split.labels.values()) == sorted(split.labels.values(), reverse=True)


@given(SPLIT)
def test_the_histogram_holds_every_item_in_the_first_bar_that_fits(items: list[Item]) -> None:
    split = check_corpus(Corpus(items, items, [])).splits["train"]
    lengths = [len(item.forms) for item in items if isinstance(item, Sentence)]
    bounds = (0, *LENGTHS, max(lengths) + LENGTHS[-1])
    assert split.lengths == tuple(sum(low < n <= high for n in lengths) for low, high in pairwise(bounds))
    assert split.longest == max(lengths)


@given(SPLIT, SPLIT)
def test_repeated_and_shared_items_are_those_of_the_same_words(train: list[Item], dev: list[Item]) -> None:
    found = check_corpus(Corpus(train, dev, []))
    forms = [item.forms for item in train if isinstance(item, Sentence)]
    assert found.splits["train"].repeated == sum(forms[i] in forms[:i] for i in range(len(forms)))
    assert found.shared == {("dev", "train"): sum(isinstance(i, Sentence) and i.forms in forms for i in dev)}


@given(SPLIT, SPLIT, SPLIT)
def test_unseen_labels_are_those_that_train_lacks(train: list[Item], dev: list[Item], test: list[Item]) -> None:
    found = check_corpus(Corpus(train, dev, test))
    known = set(found.splits["train"].labels)
    for name in ("dev", "test"):
        labels = found.splits[name].labels
        assert found.unseen[name] == {label: n for label, n in labels.items() if label not in known}


def test_documents_are_counted_and_those_of_two_splits_are_told() -> None:
    def items(*documents: str | None) -> list[Item]:
        return [Sentence((f"{i}",), ("A",), document=name) for i, name in enumerate(documents)]

    found = check_corpus(Corpus(items("a", "a", "b", None), items("b", "c", "c"), items(None, None)))
    assert [found.splits[name].documents for name in ("train", "dev", "test")] == [3, 2, 0]
    assert found.shared_documents == {("dev", "train"): 1, ("test", "train"): 0, ("test", "dev"): 0}


# --- What does not fit in this machine's memory is refused before it fills it.


TEXTS = Columns(text="text", label="label")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """A machine with room for a thousand bytes of text."""
    monkeypatch.setattr(text_file, "free_bytes", lambda: 1_000 * BYTES_PER_BYTE)
    monkeypatch.setattr(text_file, "_PIECE", 700)
    return 1_000


def test_what_does_not_fit_in_memory_is_not_read(tmp_path: Path, small: int) -> None:
    (tmp_path / "large.txt").write_bytes(b"a" * (small + 1))
    with pytest.raises(DataError, match=r"large\.txt: it has 1,001 bytes, more than the 1,000 that fit"):
        read_lines(tmp_path / "large.txt")
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"word " * 400))
    with pytest.raises(DataError, match=r"text\.gz: it has 1,400 bytes, more than"):  # of 2,000: no more was unpacked
        read_lines(tmp_path / "text.gz")
    pq.write_table(pa.table({"text": [f"text {n}" for n in range(300)], "label": [0, 1] * 150}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet: it has [\d,]+ bytes, more than"):
        read_parquet(tmp_path / "t.parquet", TEXTS)

"""A corpus looked over: histogram, duplicates, labels."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from trials.datasets.check import LENGTHS, check_corpus
from trials.datasets.corpus import Corpus, Item, Sentence, Text
from trials.tasks.task import labels_of

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


def test_a_corpus_without_test_has_no_line_of_it() -> None:
    found = check_corpus(Corpus([Sentence(("a",), ("A",))], [Sentence(("b",), ("B",))], []))
    assert set(found.splits) == {"train", "dev"}
    assert set(found.shared) == {("dev", "train")}
    assert found.unseen == {"dev": {"B": 1}}


def test_a_pair_is_the_words_of_both_texts() -> None:
    same, other = Text("a b", "c", "1"), Text("a b", "d", "0")
    found = check_corpus(Corpus([same, other], [Text("a b", "c", "0")], [Text("a b", None, "1")]))
    assert found.splits["train"].words == 6
    assert found.shared == {("dev", "train"): 1, ("test", "train"): 0, ("test", "dev"): 0}


def test_a_label_changes_nothing_about_being_said_twice() -> None:
    items: list[Item] = [Text("a b", None, "0"), Text("a  b", None, "1")]
    assert check_corpus(Corpus(items, items[:1], [])).splits["train"].repeated == 1


def test_documents_are_counted_and_those_of_two_splits_are_told() -> None:
    def items(*documents: str | None) -> list[Item]:
        return [Sentence((f"{i}",), ("A",), document=name) for i, name in enumerate(documents)]

    found = check_corpus(Corpus(items("a", "a", "b", None), items("b", "c", "c"), items(None, None)))
    assert [found.splits[name].documents for name in ("train", "dev", "test")] == [3, 2, 0]
    assert found.shared_documents == {("dev", "train"): 1, ("test", "train"): 0, ("test", "dev"): 0}

"""Span tags of any scheme come out as IOB2, and a tag that breaks its scheme is named by sentence and word."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from trials.datasets.columns_reader import read_columns
from trials.datasets.corpus import Sentence
from trials.datasets.schemes import meant_tag, read_scheme, to_iob2
from trials.errors import DataError
from trials.settings import Columns, Scheme
from trials.sources.corpus_draft import DataDraft
from trials.tasks.reading import read_corpus

DATA = Path(__file__).parents[4] / "shared" / "data"
Spans = list[tuple[str, int]]  # a sentence: type ("" is outside) and words of every stretch


def sentence(tags: str, place: str = "x.txt:1") -> Sentence:
    return Sentence(tuple(f"w{n}" for n, _ in enumerate(tags.split(), start=1)), tuple(tags.split()), place)


def converted(scheme: Scheme, *tags: str) -> list[str]:
    return [" ".join(found.tags) for found in to_iob2([sentence(each) for each in tags], scheme)]


def refusal(scheme: Scheme, *tags: str) -> str:
    """The message; the n-th sentence is at `x.txt:n`."""
    with pytest.raises(DataError) as error:
        to_iob2([sentence(each, f"x.txt:{n}") for n, each in enumerate(tags, start=1)], scheme)
    return str(error.value)


IOB2 = "B-LOC I-LOC B-LOC O B-PER B-LOC"
WRITTEN = {
    "iob2": IOB2,
    "iob1": "I-LOC I-LOC B-LOC O I-PER I-LOC",
    "bioes": "B-LOC E-LOC S-LOC O S-PER S-LOC",
}


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
def test_every_scheme_is_found_and_written_as_iob2(scheme: Scheme) -> None:
    assert converted(scheme, WRITTEN[scheme]) == converted("auto", WRITTEN[scheme]) == [IOB2]


def test_bilou_is_bioes_with_other_letters() -> None:
    assert converted("auto", "B-LOC I-LOC L-LOC U-LOC O") == ["B-LOC I-LOC I-LOC B-LOC O"]


def test_a_span_does_not_go_on_in_the_next_sentence() -> None:
    assert converted("auto", "O I-LOC", "I-LOC O") == ["O B-LOC", "B-LOC O"]


def test_what_fits_both_is_read_as_iob2() -> None:
    assert converted("auto", "O B-LOC", "O O") == ["O B-LOC", "O O"]


def test_a_type_may_hold_a_dash() -> None:
    assert converted("auto", "I-product-food I-product-food") == ["B-product-food I-product-food"]


def test_words_and_places_stay_and_the_sentences_given_are_not_changed() -> None:
    given_ = [sentence("I-LOC O", "y.txt:7")]
    assert to_iob2(given_, "iob1") == [Sentence(("w1", "w2"), ("B-LOC", "O"), "y.txt:7")]
    assert given_ == [sentence("I-LOC O", "y.txt:7")]


STRETCHES = st.lists(st.tuples(st.sampled_from(["", "A", "B"]), st.integers(1, 4)), min_size=1, max_size=6)


def write(spans: Spans, scheme: Scheme) -> str:
    """The tags of a sentence in a scheme."""
    tags: list[str] = []
    for n, (kind, length) in enumerate(spans):
        follows = scheme == "iob2" or (scheme == "iob1" and n > 0 and spans[n - 1][0] == kind)
        first, inside, last, single = "BIES" if scheme == "bioes" else ("B" if follows else "I", "I", "I", "")
        letters = [first, *inside * (length - 2), last] if length > 1 else [single or first]
        tags += [f"{letter}-{kind}" for letter in letters] if kind else ["O"] * length
    return " ".join(tags)


@given(st.lists(STRETCHES, min_size=1, max_size=3), st.sampled_from(["iob1", "iob2", "bioes"]))
def test_spans_survive_from_any_scheme(sentences: list[Spans], scheme: Scheme) -> None:
    expected = [write(spans, "iob2") for spans in sentences]
    assert converted(scheme, *(write(spans, scheme) for spans in sentences)) == expected


@given(st.lists(STRETCHES, min_size=1, max_size=3))
def test_bioes_is_found_where_it_differs(sentences: list[Spans]) -> None:
    written = [write(spans, "bioes") for spans in sentences]
    assert converted("auto", *written) == converted("bioes", *written)


# --- What it refuses


@each("tag", ["NOUN", "B", "B-", "-LOC", "X-LOC", "b-LOC", "BLOC", "o", "0", "_"])
@each("scheme", ["auto", "iob2"])
def test_what_is_no_span_tag_is_named(tag: str, scheme: Scheme) -> None:
    message = refusal(scheme, "O O", f"O B-LOC {tag}")
    start = f"x.txt:2: word 3, 'w3', has the tag {tag!r}, which is not a span tag, i.e. O or B-/I- with a type."
    assert message.startswith(start)


@each("before", ["", "O ", "B-PER ", "I-LOC B-PER "])
def test_an_i_without_its_b_is_named(before: str) -> None:
    message = refusal("iob2", "O O", f"B-LOC {before}I-LOC".replace("B-LOC I-LOC B", "B-LOC B") if before else "I-LOC")
    assert (
        ", has the tag 'I-LOC', which has no preceding B-LOC. Fix the tag, or leave out `scheme`, which is `iob2`"
        in message
    )
    assert message.startswith("x.txt:2: word ")


@pytest.mark.parametrize(("tags", "word"), [("B-LOC I-LOC", 1), ("O B-LOC", 2), ("I-PER B-LOC", 2)])
def test_a_b_that_iob1_does_not_need_is_named(tags: str, word: int) -> None:
    rule = "which does not follow a LOC, and only there does IOB1 have a B-."
    assert refusal("iob1", tags).startswith(f"x.txt:1: word {word}, 'w{word}', has the tag 'B-LOC', {rule}")


@each("tag", ["S-LOC", "E-LOC", "U-LOC", "L-LOC"])
@each("scheme", ["iob1", "iob2"])
def test_a_letter_of_another_scheme_is_named(tag: str, scheme: Scheme) -> None:
    assert f"word 1, 'w1', has the tag {tag!r}, which is not a tag of {scheme.upper()}" in refusal(scheme, tag)


@each(
    "tags, word",
    [("B-LOC", 1), ("B-LOC O S-LOC", 1), ("B-LOC I-LOC B-LOC E-LOC", 2), ("B-LOC E-PER", 1), ("S-X B-LOC S-LOC", 2)],
)
def test_a_span_that_is_never_ended_is_named(tags: str, word: int) -> None:
    tag = tags.split()[word - 1]
    start = f"x.txt:1: word {word}, 'w{word}', has the tag {tag!r}, which is never ended by an E-LOC or L-LOC."
    assert refusal("bioes", tags).startswith(start)


@each("tags", ["O E-LOC", "S-LOC I-LOC E-LOC", "S-LOC E-LOC", "S-PER E-LOC"])
def test_an_end_without_a_beginning_is_named(tags: str) -> None:
    message = refusal("bioes", tags)
    assert message.startswith("x.txt:1: word 2, 'w2', has the tag ")
    assert "which has no preceding B-LOC. Fix the tag, or leave out `scheme`, which is `bioes`" in message


# --- Slips where the scheme is detected


@each(
    "tags, expected, scheme, broken",
    [
        ("B-LOC I-LOC O B-PER O I-LOC", "B-LOC I-LOC O B-PER O B-LOC", "iob2", 1),
        ("B-LOC O B-PER I-LOC I-LOC O", "B-LOC O B-PER B-LOC I-LOC O", "iob2", 1),
        ("I-LOC O I-PER O I-LOC I-LOC O B-LOC", "B-LOC O B-PER O B-LOC I-LOC O B-LOC", "iob1", 1),
        ("B-LOC E-LOC S-PER O E-LOC S-LOC", "B-LOC I-LOC B-PER O B-LOC B-LOC", "bioes", 1),
        ("B-LOC E-LOC S-PER O B-LOC O", "B-LOC I-LOC B-PER O B-LOC O", "bioes", 1),
        ("B-LOC I-LOC O B-PER S-PER B-LOC", "B-LOC I-LOC O B-PER B-PER B-LOC", "iob2", 1),
    ],
)
def test_a_few_slips_are_read_as_conlleval_does_and_counted(tags: str, expected: str, scheme: str, broken: int) -> None:
    assert converted("auto", tags) == [expected]
    found = read_scheme([sentence(tags)], "auto")
    assert (found.scheme, found.broken) == (scheme, broken)
    assert f"{broken} tag breaks {scheme.upper()}" in " ".join(found.notes())


def test_the_place_of_a_slip_is_the_line_of_its_word() -> None:
    lines = Sentence(("a", "b", "c"), ("O", "O", "I-LOC"), "f.bio:501", word_lines=True)
    rest = [sentence("B-LOC I-LOC O B-PER")] * 3
    assert "(the first: f.bio:503: 'c' has the tag 'I-LOC')" in read_scheme([lines, *rest], "auto").notes()[0]
    with pytest.raises(DataError, match=r"^f\.bio:503: 'c' has the tag 'I-LOC', which has no preceding B-LOC"):
        to_iob2([lines, *rest], "iob2")


def test_iob2_without_slips_needs_no_note_and_iob1_is_told() -> None:
    assert read_scheme([sentence("B-LOC I-LOC O")], "auto").notes() == []
    assert "the tags are IOB1" in read_scheme([sentence("I-LOC I-LOC B-LOC O")], "auto").notes()[0]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("I-LOC I-LOC O I-PER", "B-LOC I-LOC O B-PER"),
        ("person-actor person-actor O LOC", "B-person-actor I-person-actor O B-LOC"),
    ],
)
def test_io_has_types_with_or_without_a_prefix(tags: str, expected: str) -> None:
    assert converted("io", tags) == [expected]


def test_a_b_in_io_is_refused() -> None:
    assert "has the tag 'B-LOC', which is not a tag of IO" in refusal("io", "B-LOC I-LOC")


@each(
    "slip, meant",
    [
        *(("B_ORG", "B-ORG"), ("b-org", "B-org"), ("I:PER", "I-PER"), ("0", "O"), ("o", "O")),
        *(("B-", None), ("NOUN", None), ("B-ORG", None)),
    ],
)
def test_what_a_slip_stands_for_is_said(slip: str, meant: str | None) -> None:
    assert meant_tag(slip) == meant
    if meant:
        message = refusal("auto", "B-ORG O O O O O O O O O", f"O {slip}")
        assert "all but 1 of 12 are" in message
        assert f"Did you mean {meant!r}? Fix it" in message


def test_every_broken_tag_is_told_and_beyond_twenty_counted() -> None:
    lines = refusal("iob2", "O", *["O I-LOC I-PER"] * 12).split("\n")
    assert [line.split(",")[0] for line in lines[:3]] == ["x.txt:2: word 2", "x.txt:2: word 3", "x.txt:3: word 2"]
    assert (len(lines), lines[-1]) == (21, "... and 4 more broken lines.")


def test_every_word_of_a_column_that_holds_no_span_tags_is_told() -> None:
    assert [line.split(",")[0] for line in refusal("auto", "NOUN VERB", "O NOUN").split("\n")] == [
        "x.txt:1: word 1", "x.txt:1: word 2", "x.txt:2: word 2"
    ]  # fmt: skip


def test_the_broken_tags_of_all_splits_are_told_together(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text(f"{split} O\nb I-LOC\n\nc B-LOC\nd I-PER\n")
    with pytest.raises(DataError) as error:
        read_corpus("ner", DataDraft(folder=str(tmp_path), scheme="iob2").resolve())
    assert [line.split(":")[0] for line in str(error.value).split("\n")] == [
        f"{tmp_path.name}, {split} split" for split in ("train", "train", "dev", "dev")
    ]


def test_a_sentence_of_no_place_is_counted() -> None:
    with pytest.raises(DataError, match=r"^sentence 2: word 1, 'w1', has the tag 'I-LOC'"):
        to_iob2([sentence("O", ""), sentence("I-LOC", "")], "iob2")


# --- Real corpora


@pytest.mark.parametrize("name", ["conll2003pp/conllpp_train.txt", "KazNERD/IOB2_valid.txt", "KazNERD/IOB2_test.txt"])
@pytest.mark.slow
def test_published_entities_are_iob2_already(name: str) -> None:
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not at {DATA}")
    sentences = read_columns(DATA / name, Columns())
    assert to_iob2(sentences, "auto") == to_iob2(sentences, "iob2") == sentences


def test_the_chunks_of_conll_test_are_iob1_though_those_of_train_are_iob2() -> None:
    path = DATA / "conll2003pp" / "conllpp_test.txt"
    if not path.is_file():
        pytest.skip(f"CoNLL-2003 is not at {path}")
    chunks = to_iob2(read_columns(path, Columns(tags=2)), "auto")
    assert chunks[0].tags[:5] == ("B-NP", "O", "B-NP", "B-VP", "B-NP")

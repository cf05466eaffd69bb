"""Span tags of any scheme come out as IOB2, and a tag that breaks its scheme is named by sentence and word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each, refusal_of
from trials.corpora.cell_evidence import meant_tag
from trials.corpora.corpus import Sentence
from trials.corpora.schemes import read_scheme, to_iob2
from trials.errors import DataError
from trials.spec import Scheme

Spans = list[tuple[str, int]]  # a sentence: type ("" is outside) and words of every stretch


def sentence(tags: str, place: str = "x.txt:1") -> Sentence:
    return Sentence(tuple(f"w{n}" for n, _ in enumerate(tags.split(), start=1)), tuple(tags.split()), place)


def converted(scheme: Scheme, *tags: str) -> list[str]:
    """The tags of each sentence; the n-th is at `x.txt:n`."""
    sentences = [sentence(each, f"x.txt:{n}") for n, each in enumerate(tags, start=1)]
    return [" ".join(found.tags) for found in to_iob2(sentences, scheme)]


refusal = refusal_of(converted, DataError)


@each(
    "tags, expected",
    [
        (["B-LOC I-LOC L-LOC U-LOC O"], ["B-LOC I-LOC I-LOC B-LOC O"]),  # BILOU is BIOES with other letters
        (["O I-LOC", "I-LOC O"], ["O B-LOC", "B-LOC O"]),  # no span goes on in the next sentence
        (["O B-LOC", "O O"], ["O B-LOC", "O O"]),  # what fits both is IOB2
        (["I-product-food I-product-food"], ["B-product-food I-product-food"]),
    ],
)
def test_the_scheme_of_tags_is_found(tags: list[str], expected: list[str]) -> None:
    assert converted("auto", *tags) == expected


@each(
    "tags, expected",
    [
        ("I-LOC I-LOC O I-PER", "B-LOC I-LOC O B-PER"),
        ("person-actor person-actor O LOC", "B-person-actor I-person-actor O B-LOC"),
    ],
)
def test_io_has_types_with_or_without_a_prefix(tags: str, expected: str) -> None:
    assert converted("io", tags) == [expected]


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


NO_SPAN_TAG = "which is not a span tag, i.e. O or B-/I- with a type."
NO_BEGIN, NO_END = "which has no preceding B-LOC. Fix the tag", "which is never ended by an E-LOC or L-LOC."
NOT_NEEDED = "which does not follow a LOC, and only there does IOB1 have a B-."


@each(
    "scheme, tags, word, rule",
    [
        *(
            (scheme, f"O B-LOC {tag}", 3, NO_SPAN_TAG)
            for scheme in ("auto", "iob2")
            for tag in ("NOUN", "B", "B-", "-LOC", "X-LOC", "b-LOC", "BLOC", "o", "0", "_")
        ),
        *(("iob2", tags, n, NO_BEGIN) for tags, n in (("I-LOC", 1), ("B-LOC O I-LOC", 3), ("B-LOC B-PER I-LOC", 3))),
        *(("iob1", tags, n, NOT_NEEDED) for tags, n in (("B-LOC I-LOC", 1), ("O B-LOC", 2), ("I-PER B-LOC", 2))),
        *(
            (scheme, f"{letter}-LOC", 1, f"which is not a tag of {scheme.upper()}")
            for scheme in ("iob1", "iob2")
            for letter in "SEUL"
        ),
        ("io", "B-LOC I-LOC", 1, "which is not a tag of IO"),
        *(("bioes", tags, 1, NO_END) for tags in ("B-LOC", "B-LOC O S-LOC", "B-LOC E-PER")),
        *(("bioes", tags, 2, NO_END) for tags in ("B-LOC I-LOC B-LOC E-LOC", "S-X B-LOC S-LOC")),
        *(("bioes", f"{before} E-LOC", 2, NO_BEGIN) for before in ("O", "S-LOC", "S-PER")),
        ("bioes", "S-LOC I-LOC E-LOC", 2, NO_BEGIN),
    ],
)
def test_a_tag_that_breaks_its_scheme_is_named(scheme: Scheme, tags: str, word: int, rule: str) -> None:
    message = refusal(scheme, "O O", tags)
    assert message.startswith(f"x.txt:2: word {word}, 'w{word}', has the tag {tags.split()[word - 1]!r}, {rule}")


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

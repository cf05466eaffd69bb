"""Spans are read and scored as seqeval does in its strict mode for IOB2, and as the script conlleval does."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.metrics.v1 import precision_recall_fscore_support
from seqeval.scheme import IOB2, Entities

from tests.examples import each
from tests.peers import times_of
from trials.metrics.metric import METRICS, Ids, PredictedSplit
from trials.metrics.task_metrics import TagScore, span_table, span_types, spans

CONLL = Path(__file__).parents[4] / "shared" / "data" / "conll2003pp" / "conllpp_dev.txt"
NAMES = ("B-LOC", "B-ORG", "B-PER", "I-LOC", "I-ORG", "I-PER", "O")
OUTSIDE = NAMES.index("O")
SENTENCES = st.lists(st.lists(st.tuples(*[st.integers(-1, 6)] * 2), min_size=1, max_size=8), min_size=1, max_size=5)
Pairs = list[list[tuple[int, int]]]  # sentences of (gold, predicted) ids


def ids(values: Sequence[int]) -> Ids:
    return np.array(values, dtype=np.int64)


def flat(sentences: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """The words' ids and the sentences' starts."""
    return ids([tag for tags in sentences for tag in tags]), ids(np.cumsum([0, *map(len, sentences)]).tolist()[:-1])


def both(pairs: Pairs) -> tuple[Ids, Ids, Ids]:
    gold, starts = flat([[pair[0] for pair in sentence] for sentence in pairs])
    return gold, flat([[pair[1] for pair in sentence] for sentence in pairs])[0], starts


def written(tags: Ids, starts: Ids, names: tuple[str, ...] = NAMES) -> list[list[str]]:
    """As seqeval takes them; a word without a prediction is O."""
    ends = [*starts.tolist()[1:], len(tags)]
    words = [names[tag] if tag >= 0 else "O" for tag in tags.tolist()]
    return [words[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]


def of_words(*sentences: str) -> list[tuple[str, int, int]]:
    """The spans of sentences of tags: `of_words("B-LOC I-LOC O")`."""
    tags, starts = flat([[NAMES.index(tag) for tag in sentence.split()] for sentence in sentences])
    return [(span_types(NAMES)[kind], first, end) for kind, first, end in spans(tags, starts, NAMES).tolist()]


@each(
    "tags, expected",
    [
        ("B-LOC I-LOC O B-PER", [("LOC", 0, 2), ("PER", 3, 4)]),
        ("B-LOC B-LOC I-LOC", [("LOC", 0, 1), ("LOC", 1, 3)]),
        ("O I-LOC I-LOC", []),
        ("B-LOC I-PER I-PER", [("LOC", 0, 1)]),
        ("B-LOC I-PER I-LOC", [("LOC", 0, 1)]),
        ("I-LOC B-LOC I-LOC", [("LOC", 1, 3)]),
    ],
)
def test_a_span_is_a_b_and_the_i_of_its_type_that_follow(tags: str, expected: list[tuple[str, int, int]]) -> None:
    assert of_words(tags) == expected


def test_a_span_ends_with_its_sentence() -> None:
    assert of_words("O B-LOC", "I-LOC O", "B-PER", "B-PER I-PER") == [("LOC", 1, 2), ("PER", 4, 5), ("PER", 5, 7)]


@given(SENTENCES)
@example([[(0, 0), (3, 5), (3, 3), (OUTSIDE, 3)], [(3, 0), (0, -1)]])
def test_spans_are_those_of_seqeval(pairs: Pairs) -> None:
    gold, _, starts = both(pairs)
    found = [entity for sentence in Entities(written(gold, starts), IOB2).entities for entity in sentence]
    first = starts.tolist()
    expected = [
        (entity.tag, first[entity.sent_id] + entity.start, first[entity.sent_id] + entity.end) for entity in found
    ]
    kinds = span_types(NAMES)
    assert [(kinds[kind], start, end) for kind, start, end in spans(gold, starts, NAMES).tolist()] == expected


SCORES = ("precision", "recall", "f1", "macro_precision", "macro_recall", "macro_f1")


def span_scores(gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...] = NAMES) -> dict[str, float]:
    split = PredictedSplit(gold, predicted, starts, names)
    return {name: METRICS[f"span_{name}"].function(split) for name in SCORES}


def seqeval_scores(gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...] = NAMES) -> dict[str, float]:
    lists = written(gold, starts, names), written(predicted, starts, names)
    if not Entities(lists[0], IOB2).unique_tags | Entities(lists[1], IOB2).unique_tags:
        return dict.fromkeys(SCORES, 0.0)  # seqeval divides by no types at all
    micro, macro = (
        precision_recall_fscore_support(*lists, average=average, zero_division=0, scheme=IOB2)[:3]
        for average in ("micro", "macro")
    )
    return dict(zip(SCORES, map(float, (*micro, *macro)), strict=True))


@given(SENTENCES)
def test_scores_are_those_of_seqeval(pairs: Pairs) -> None:
    assert span_scores(*both(pairs), NAMES) == pytest.approx(seqeval_scores(*both(pairs)), abs=1e-12)


def test_a_span_counts_only_with_its_type_and_both_borders() -> None:
    gold, starts = flat([[0, 3, OUTSIDE, 2], [1, 4]])
    predicted, _ = flat([[0, OUTSIDE, OUTSIDE, 2], [2, 5]])  # one end too early, one right, one of another type
    scores = span_scores(gold, predicted, starts, NAMES)
    assert [scores[name] for name in SCORES[:3]] == pytest.approx([1 / 3] * 3)
    assert scores["macro_f1"] == pytest.approx((0 + 0 + 2 / 3) / 3)  # LOC, ORG; PER has one of two


@pytest.mark.parametrize("tags", [[], [OUTSIDE, OUTSIDE], [-1, 3]])
def test_without_spans_all_scores_are_0(tags: list[int]) -> None:
    starts = ids([0] if tags else [])
    assert span_scores(ids(tags), ids(tags), starts, NAMES) == dict.fromkeys(SCORES, 0.0)
    assert span_table(ids(tags), ids(tags), starts, NAMES) == ()


def test_a_name_that_is_no_span_tag_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="NOUN"):
        spans(ids([0]), ids([0]), ("NOUN", "O"))


@given(SENTENCES)
def test_the_table_is_seqevals_report(pairs: Pairs) -> None:
    gold, predicted, starts = both(pairs)
    rows = span_table(gold, predicted, starts, NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a report of no types at all averages nothing
        report = classification_report(
            written(gold, starts),
            written(predicted, starts),
            output_dict=True,
            mode="strict",
            scheme=IOB2,
            zero_division=0,
        )
    assert [row.tag for row in rows] == sorted(key for key in report if not key.endswith(" avg"))
    for row in rows:
        expected = [report[row.tag][key] for key in ("precision", "recall", "f1-score", "support")]
        assert [row.precision, row.recall, row.f1, row.support] == pytest.approx(expected)


def test_a_row_of_the_table_is_a_type() -> None:
    gold, starts = flat([[0, 3, 0]])
    predicted, _ = flat([[0, 3, OUTSIDE]])
    row = TagScore("LOC", "span", support=2, predicted=1, correct=1, precision=1.0, recall=0.5, f1=2 / 3)
    assert span_table(gold, predicted, starts, NAMES) == (row,)


# --- conlleval


def begins(before: str, tag: str) -> bool:
    """The script's `startOfChunk`, for tags such as B-LOC, I-LOC and O."""
    if tag == "O":
        return False
    return tag[0] == "B" or before == "O" or before[2:] != tag[2:]


def ends(tag: str, after: str) -> bool:
    """Its `endOfChunk`."""
    if tag == "O":
        return False
    return after[0] in "BO" or tag[2:] != after[2:]


def script_f1(gold: list[list[str]], predicted: list[list[str]]) -> float:
    """The script's loop, line by line: a boundary of sentences is a line with O twice."""
    lines = [line for pair in zip(gold, predicted, strict=True) for line in [("O", "O"), *zip(*pair, strict=True)]]
    n_gold = n_predicted = n_correct = 0
    both_open, before = False, ("O", "O")
    for line in [*lines, ("O", "O")]:
        closed = ends(before[0], line[0]), ends(before[1], line[1])
        if both_open and all(closed):
            n_correct, both_open = n_correct + 1, False
        elif both_open and (any(closed) or line[0][2:] != line[1][2:]):
            both_open = False
        opened = begins(before[0], line[0]), begins(before[1], line[1])
        both_open = both_open or (all(opened) and line[0][2:] == line[1][2:])
        n_gold, n_predicted, before = n_gold + opened[0], n_predicted + opened[1], line
    return 2 * n_correct / (n_gold + n_predicted) if n_gold + n_predicted else 0.0


def conlleval_f1(gold: Ids, predicted: Ids, starts: Ids) -> float:
    return METRICS["conlleval_f1"].function(PredictedSplit(gold, predicted, starts, NAMES))


@given(SENTENCES)
@example([[(0, 3), (3, 3), (OUTSIDE, OUTSIDE), (2, 4)], [(2, 5)]])
def test_the_lenient_f1_is_that_of_the_script(pairs: Pairs) -> None:
    gold, predicted, starts = both(pairs)
    assert conlleval_f1(gold, predicted, starts) == pytest.approx(
        script_f1(written(gold, starts), written(predicted, starts)), abs=1e-12
    )


@each(
    "gold, predicted, f1",
    [
        ("B-LOC I-LOC O", "I-LOC I-LOC O", 1),  # an I- after O begins a span
        ("B-LOC B-PER O", "B-LOC I-PER O", 1),  # so does an I- of another type
        ("B-LOC B-LOC O", "B-LOC I-LOC O", 0),  # but not one of the same type
        ("B-LOC I-LOC O", "B-LOC I-PER O", 0),  # three spans, none of them in both
        ("B-LOC O B-PER", "I-LOC O O", 2 / 3),
    ],
)
def test_a_span_of_conlleval_may_begin_with_an_i(gold: str, predicted: str, f1: float) -> None:
    ids_of = [flat([[NAMES.index(tag) for tag in tags.split()]]) for tags in (gold, predicted)]
    assert conlleval_f1(ids_of[0][0], ids_of[1][0], ids_of[0][1]) == pytest.approx(f1)


def test_a_sentence_that_begins_with_an_i_begins_a_span() -> None:
    gold, starts = flat([[0], [0]])
    predicted, _ = flat([[0], [3]])
    assert conlleval_f1(gold, predicted, starts) == 1
    assert span_scores(gold, predicted, starts, NAMES)["f1"] == pytest.approx(2 / 3)


# --- A real corpus


def conll() -> tuple[Ids, Ids, tuple[str, ...]]:
    """The dev split's tags, starts and names; every block but `-DOCSTART-` is a sentence."""
    blocks = [block.splitlines() for block in CONLL.read_text(encoding="utf-8").split("\n\n") if block.strip()]
    tags = [[line.split(" ")[-1] for line in block] for block in blocks if not block[0].startswith("-DOCSTART-")]
    names = tuple(sorted({tag for sentence in tags for tag in sentence}))
    return *flat([[names.index(tag) for tag in sentence] for sentence in tags]), names


@pytest.mark.skipif(not CONLL.is_file(), reason=f"CoNLL-2003 is not at {CONLL}")
@each("share", [0.3, 0.02, 1.0, 0.0], quick=1)
def test_a_corrupted_corpus_scores_as_in_seqeval(share: float) -> None:
    gold, starts, names = conll()
    rng = np.random.default_rng(7)
    noise = rng.integers(-1, len(names), len(gold))
    predicted = np.where(rng.random(len(gold)) < share, noise, gold)
    found = span_scores(gold, predicted, starts, names)
    assert found == pytest.approx(seqeval_scores(gold, predicted, starts, names), abs=1e-12)
    assert (found["f1"] == 1) == (share == 0)


def test_scoring_a_large_split_takes_less_than_counting_its_tags_in_python() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = rng.integers(-1, len(NAMES), (2, 140_000))
    starts = np.arange(0, 140_000, 14)
    pairs = list(zip(gold.tolist(), predicted.tolist(), strict=True))
    took = times_of(lambda: span_scores(gold, predicted, starts, NAMES), lambda: Counter(map(str, pairs)))
    assert took < 1

"""Spans are read and scored as seqeval does in its strict mode for IOB2, and as the script conlleval does."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from seqeval.metrics import classification_report
from seqeval.metrics.v1 import precision_recall_fscore_support
from seqeval.scheme import IOB2, Entities

from trials.metrics.contributions import Ids
from trials.metrics.label_table import span_table
from trials.metrics.metric import METRICS, PredictedSplit
from trials.metrics.spans import span_types, spans

NAMES = ("B-LOC", "B-ORG", "B-PER", "I-LOC", "I-ORG", "I-PER", "O")
SENTENCES = st.lists(st.lists(st.tuples(*[st.integers(-1, 6)] * 2), min_size=1, max_size=8), min_size=1, max_size=5)
Pairs = list[list[tuple[int, int]]]  # sentences of (gold, predicted) ids
HARD: Pairs = [  # an I- after O, after another type, of no B-, across sentences; one border or the type wrong
    *([(0, 3), (3, 3), (6, 6)], [(0, 0), (2, 5), (6, 6)], [(0, 0), (0, 3), (6, 6)], [(0, 0), (3, 5), (6, 6)]),
    *([(0, 3), (6, 6), (2, 6)], [(0, 0)], [(3, 3), (0, 5), (3, 3)], [(5, 0), (0, 6), (5, 3)], [(6, 0), (0, 6)]),
    *([(3, 3), (6, 4)], [(0, 0), (3, 6), (6, 6), (2, 2)], [(1, 2), (4, 5)]),
]


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


@given(SENTENCES)
@example(HARD)
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
@example(HARD)
def test_scores_are_those_of_seqeval(pairs: Pairs) -> None:
    assert span_scores(*both(pairs), NAMES) == pytest.approx(seqeval_scores(*both(pairs)), abs=1e-12)


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
@example(HARD)
def test_the_lenient_f1_is_that_of_the_script(pairs: Pairs) -> None:
    gold, predicted, starts = both(pairs)
    assert conlleval_f1(gold, predicted, starts) == pytest.approx(
        script_f1(written(gold, starts), written(predicted, starts)), abs=1e-12
    )

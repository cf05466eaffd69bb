"""Confusion and entity errors, counted from labels."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dashboards.views.error_counts import CUT_OFF, EntityErrors, PredictedLabels, confusion, entity_errors, has_spans
from tests.examples import each
from trials.metrics.metric import PredictedSplit
from trials.metrics.spans import span_counts

TAGS = ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")


def _predicted(gold: str, predicted: str) -> PredictedLabels:
    """Of one sentence; `.` is a word without prediction."""
    names = tuple(sorted(set(gold.split()) | set(predicted.split()) - {"."}))
    ids = {name: n for n, name in enumerate(names)} | {".": -1}
    gold_ids, ids_of_predicted = (np.array([ids[word] for word in text.split()]) for text in (gold, predicted))
    return PredictedLabels(names, gold_ids, ids_of_predicted, np.array([0]))


@each(
    "gold, predicted, expected",
    [
        ("B-LOC I-LOC O", "B-LOC I-LOC O", EntityErrors(1, 0, 0, 0, 0)),
        ("B-LOC I-LOC O", "B-PER I-PER O", EntityErrors(0, 1, 0, 0, 0)),
        ("B-LOC I-LOC O", "B-LOC O O", EntityErrors(0, 0, 1, 0, 0)),
        ("B-LOC I-LOC O", "O O O", EntityErrors(0, 0, 0, 1, 0)),
        ("O O O", "O B-PER O", EntityErrors(0, 0, 0, 0, 1)),
        ("B-LOC I-LOC O", "B-PER O O", EntityErrors(0, 0, 0, 1, 1)),  # neither type nor borders
        ("B-LOC I-LOC I-LOC", "B-LOC B-LOC I-LOC", EntityErrors(0, 0, 1, 0, 1)),  # one to one
        ("B-LOC I-LOC O", ". . .", EntityErrors(0, 0, 0, 1, 0)),
        ("O I-LOC O", "O B-LOC O", EntityErrors(0, 0, 0, 0, 1)),  # strict IOB2: an I- alone is no span
    ],
)
def test_each_span_is_counted_once(gold: str, predicted: str, expected: EntityErrors) -> None:
    assert entity_errors(_predicted(gold, predicted)) == expected


words = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 4)), min_size=1, max_size=40)


@given(words)
def test_errors_add_up_to_the_spans_of_both_sides(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    found = PredictedLabels(TAGS, gold, predicted, np.array([0]))
    errors, counts = entity_errors(found), span_counts(PredictedSplit(gold, predicted, np.array([0]), TAGS))
    shared = errors.correct + errors.wrong_type + errors.wrong_boundary
    n_gold, n_predicted, n_correct = counts[0].sum(axis=1)
    assert errors.correct == n_correct
    assert shared + errors.missed == n_gold
    assert shared + errors.spurious == n_predicted


def test_confusion_counts_pairs_and_words_that_were_cut_off() -> None:
    counts = confusion(_predicted("A A B B B", "A B B B ."))
    assert counts.to_dict() == {("A", "A"): 1, ("A", "B"): 1, ("B", "B"): 2, ("B", CUT_OFF): 1}


def test_labels_without_a_prefix_are_no_spans() -> None:
    assert has_spans(_predicted("B-LOC", "O"))
    assert not has_spans(_predicted("NOUN", "VERB"))

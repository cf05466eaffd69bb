"""The spans of tags, e.g. named entities: a span is correct if its type and both of its boundaries are.

Tags are read as strict IOB2: a span is a `B-` and the `I-` of its type that follow it; any other `I-` belongs to no
span. seqeval 1.2 does the same with ``mode="strict", scheme=IOB2``. conlleval, the script of the shared tasks from
CoNLL-2000 on, has the lenient reading: an `I-` begins a span where it continues none, i.e. at the start of a sentence,
after `O` and after another type (E. Tjong Kim Sang and S. Buchholz, "Introduction to the CoNLL-2000 Shared Task:
Chunking", 2000).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from trials.metrics.contributions import Floats, Ids, count_items
from trials.metrics.metric import PredictedSplit

OUTSIDE, BEGIN, INSIDE = range(3)
PREFIXES = {"B-": BEGIN, "I-": INSIDE}


def span_types(names: tuple[str, ...]) -> tuple[str, ...]:
    """The entity types of span tags, sorted; type ids index them."""
    return tuple(sorted({name[2:] for name in names if name[:2] in PREFIXES}))


def spans(tags: Ids, starts: Ids, names: tuple[str, ...], *, lenient: bool = False) -> Ids:
    """The spans of all sentences, in order.

    Args:
        tags: (words,) ids into `names`; -1 counts as `O`.
        starts: (sentences,) index of each sentence's first word, ascending.
        names: `O`, and `B-` and `I-` with a type.
        lenient: Whether an `I-` that continues no span begins one, as in conlleval.

    Returns:
        (spans, 3): id of the type in `span_types`, first word, one past the last word.
    """
    prefix_of, type_of = _parts(names)
    prefix, kind = prefix_of[tags], type_of[tags]
    continues = np.zeros(len(tags) + 1, dtype=bool)  # one more, where the last sentence ends
    continues[1:-1] = (prefix[1:] == INSIDE) & (prefix[:-1] != OUTSIDE) & (kind[1:] == kind[:-1])
    continues[starts] = False
    first = np.flatnonzero((prefix != OUTSIDE) & ~continues[:-1] if lenient else prefix == BEGIN)
    borders = np.flatnonzero(~continues)
    end = borders[np.searchsorted(borders, first, side="right")]
    return np.stack([kind[first], first, end], axis=1)


@lru_cache(maxsize=64)
def _parts(names: tuple[str, ...]) -> tuple[Ids, Ids]:
    """Prefix and type id of every name, (names + 1,) each; the last entry, which -1 indexes, is `O`."""
    types = {kind: i for i, kind in enumerate(span_types(names))}
    assert all(name == "O" or (name[:2] in PREFIXES and name[2:]) for name in names), names
    prefix = [PREFIXES.get(name[:2], OUTSIDE) for name in names]
    kind = [types.get(name[2:], -1) for name in names]
    return np.array([*prefix, OUTSIDE]), np.array([*kind, -1])


def _gold_predicted_correct(
    gold: Ids, predicted: Ids, starts: Ids, names: tuple[str, ...], *, lenient: bool = False
) -> tuple[Ids, Ids, Ids]:
    """The spans (spans, 3) of gold, of the predictions, and those that are both."""
    guessed, actual = (spans(tags, starts, names, lenient=lenient) for tags in (predicted, gold))
    gold_span_at = np.full((len(gold), 2), -1, dtype=np.int64)  # type and end of the gold span that starts at a word
    gold_span_at[actual[:, 1]] = actual[:, [0, 2]]
    return actual, guessed, guessed[(gold_span_at[guessed[:, 1]] == guessed[:, [0, 2]]).all(axis=1)]


def span_counts(split: PredictedSplit, *, lenient: bool = False) -> Floats:
    """(sentences, 3, types) counts of gold, predicted and correct spans of each sentence; `lenient` as for `spans`."""
    n_types = len(span_types(split.names))
    counted_spans = _gold_predicted_correct(split.gold, split.predicted, split.starts, split.names, lenient=lenient)
    examples = [np.searchsorted(split.starts, span_rows[:, 1], side="right") - 1 for span_rows in counted_spans]
    return np.stack(
        [
            count_items(span_rows[:, 0], example, len(split.starts), n_types)
            for span_rows, example in zip(counted_spans, examples, strict=True)
        ],
        axis=1,
    )

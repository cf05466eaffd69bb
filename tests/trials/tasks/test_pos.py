"""Part-of-speech tagging: which subword carries a label, and what counts as an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trials.corpora.corpus import Sentence
from trials.starter import model_path
from trials.tasks import TASKS
from trials.tasks.task import IGNORE, Encoding, Example

POS = TASKS["pos"]
LABELS = ("ADJ", "NOUN", "VERB")


@pytest.fixture(scope="module")
def tokenizer(tiny_models: dict[str, Path]) -> PreTrainedTokenizerBase:
    """One subword a character."""
    return AutoTokenizer.from_pretrained(tiny_models["bert"])


def encode(tokenizer: PreTrainedTokenizerBase, *pairs: tuple[str, str], max_length: int = 32) -> Example:
    sentence = Sentence(tuple(form for form, _ in pairs), tuple(tag for _, tag in pairs))
    names = (*LABELS, *sorted({tag for _, tag in pairs} - set(LABELS)))
    return POS.encode([sentence], names, len(LABELS), Encoding(tokenizer, max_length, False, False))[0]


def test_a_task_knows_the_levels_of_its_table() -> None:
    class Xpos(type(POS)):  # type: ignore[misc]
        """Somebody's own."""

    tasks = (Xpos(), TASKS["ner"], TASKS["cola"])
    assert [task.levels for task in tasks] == [("token",), ("span", "token"), ("class",)]


def test_words_beyond_the_longest_input_are_counted_and_those_of_dropped_characters_are_not(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    words = ("abc", "NOUN"), ("d", "ADJ"), ("\u200b", "ADJ"), ("d", "ADJ")
    assert [encode(tokenizer, *words, max_length=length).cut for length in (4, 5, 6, 7, 8)] == [3, 3, 2, 0, 0]


def test_a_word_of_nothing_but_dropped_characters_is_an_error_not_a_shift(tokenizer: PreTrainedTokenizerBase) -> None:
    example = encode(tokenizer, ("a", "NOUN"), ("\u200b", "ADJ"), ("b", "VERB"))
    assert [int(label) for label in example.labels if label != IGNORE] == [1, 2]
    assert (example.gold.tolist(), example.at.tolist()) == ([1, 0, 2], [1, -1, 2])


WORDS = st.text(alphabet="abcdefgXYZ'-.", min_size=1, max_size=8)


@given(st.lists(st.tuples(WORDS, st.sampled_from(LABELS)), min_size=1, max_size=20))
def test_tags_survive_encoding_with_the_starter_tokenizer(pairs: list[tuple[str, str]]) -> None:
    example = encode(STARTER_TOKENIZER, *pairs, max_length=256)
    decoded = [LABELS[label] for label in example.labels[example.labels != IGNORE]]
    assert decoded == [LABELS[label] for label in example.gold] == [tag for _, tag in pairs]
    assert np.array_equal(example.labels[example.at], example.gold)
    assert np.array_equal(example.ids[[0, -1]], [2, 3])  # [CLS] and [SEP]


STARTER_TOKENIZER = AutoTokenizer.from_pretrained(model_path())

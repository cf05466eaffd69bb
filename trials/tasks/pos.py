"""Part-of-speech tagging: a label at the first subword of every word, token accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trials.datasets.corpus import Sentence
from trials.tasks.task import IGNORE, TASKS, Example

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PosTagging:
    """UD's universal tags, but any word-level tag set read from train works the same."""

    def label_names(self, train: Sequence[Sentence]) -> tuple[str, ...]:
        """The tags of the whole train split, sorted; not of the subset, so that sizes share one tag set."""
        return tuple(sorted({tag for sentence in train for tag in sentence.tags}))

    def encode(
        self,
        sentences: Sequence[Sentence],
        labels: tuple[str, ...],
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_length: int,
        lowercase: bool,
    ) -> list[Example]:
        """Label first subwords; continuation subwords and specials get IGNORE.

        A word with no subword left (cut off by `max_length`, or nothing but characters the tokenizer drops) or with a
        tag that train lacks has no label either, but counts in `n_words`: it is an error, not a word less.
        """
        forms = [[w.lower() for w in s.forms] if lowercase else list(s.forms) for s in sentences]
        encoded = tokenizer(forms, is_split_into_words=True, truncation=True, max_length=max_length)
        tag_ids = {tag: i for i, tag in enumerate(labels)}
        return [
            _example(encoded["input_ids"][i], encoded.word_ids(i), sentence, tag_ids)
            for i, sentence in enumerate(sentences)
        ]

    def score(self, n_correct: int, n_words: int) -> float:
        """Token accuracy."""
        return n_correct / n_words


def _example(ids: list[int], word_ids: list[int | None], sentence: Sentence, tag_ids: dict[str, int]) -> Example:
    labels = np.full(len(ids), IGNORE, dtype=np.int64)
    previous = None
    for place, word in enumerate(word_ids):
        if word is not None and word != previous:
            labels[place] = tag_ids.get(sentence.tags[word], IGNORE)
        previous = word
    return Example(np.array(ids, dtype=np.int64), labels, len(sentence.forms))


TASKS.register("pos")(PosTagging())

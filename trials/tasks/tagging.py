"""Tasks with a label for every word: part-of-speech tagging, and named-entity recognition with IOB2 tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trials.corpora.corpus import Item, Sentence
from trials.corpora.schemes import read_scheme, to_iob2
from trials.errors import DataError
from trials.metrics.label_table import TagScore, span_table, tag_table
from trials.metrics.metric import Output, PredictedSplit
from trials.models.family import Head
from trials.spec import Columns, Scheme
from trials.tasks.task import IGNORE, TASKS, Encoding, Example, Task, sorted_labels


class PosTagging(Task):
    """Part-of-speech tags: UD's universal tags, or any other tag set, which is read from train."""

    head: Head = "tokens"
    regression = False
    score = "accuracy"
    outputs: frozenset[Output] = frozenset({"tags"})
    columns = Columns(tokens="tokens", tags="upos")
    reads_any: Output | None = "tags"

    def read(self, items: Sequence[Item], scheme: Scheme) -> list[Item]:
        """The sentences, unchanged."""
        return [*tagged_sentences(items)]

    def label_names(self, train: Sequence[Item]) -> tuple[str, ...]:
        """The tags of the whole train split."""
        return sorted_labels(train)

    def encode(self, items: Sequence[Item], names: tuple[str, ...], n_labels: int, how: Encoding) -> list[Example]:
        """Label the first subword of each word; continuation subwords and special tokens get IGNORE.

        A word that has no subword (because `max_length` cuts it off or the tokenizer drops all its characters), or has
        a tag that does not occur in train, is not trained on, but counts as an error in the scores.
        """
        sentences = tagged_sentences(items)
        forms = [[w.lower() for w in s.forms] if how.lowercase else list(s.forms) for s in sentences]
        encoded = how.tokenizer(forms, is_split_into_words=True, truncation=True, max_length=how.max_length)
        tag_ids = {tag: i for i, tag in enumerate(names)}
        return [
            _example(part.ids, part.word_ids, [tag_ids[tag] for tag in sentence.tags], n_labels, bool(part.overflowing))
            for part, sentence in zip(encoded.encodings, sentences, strict=True)
        ]

    def table(self, split: PredictedSplit) -> tuple[TagScore, ...]:
        """One row per tag."""
        return tag_table(split.gold, split.predicted, split.names)


class EntityRecognition(PosTagging):
    """Entity spans, held as IOB2 tags whatever scheme the files use. Micro F1 over whole spans picks the best epoch."""

    score = "span_f1"
    outputs: frozenset[Output] = frozenset({"tags", "spans"})
    columns = Columns(tokens="tokens", tags="ner_tags")
    reads_any = "spans"

    def read(self, items: Sequence[Item], scheme: Scheme) -> list[Item]:
        """The sentences with IOB2 tags. Raises DataError: a tag fits no scheme, or breaks the given one."""
        return [*to_iob2(tagged_sentences(items), scheme)]

    def notes(self, items: Sequence[Item], scheme: Scheme) -> list[str]:
        """A note on the scheme of the files, unless every tag is IOB2."""
        return read_scheme(tagged_sentences(items), scheme).notes() if items else []

    def table(self, split: PredictedSplit) -> tuple[TagScore, ...]:
        """One row per entity type, then one row per tag."""
        return (*span_table(split.gold, split.predicted, split.starts, split.names), *super().table(split))


def tagged_sentences(items: Sequence[Item]) -> list[Sentence]:
    """The items as sentences of tagged words. Raises DataError if one is a text."""
    sentences = [item for item in items if isinstance(item, Sentence)]
    if len(sentences) < len(items):
        raise DataError(
            "the task tags words, but this corpus has whole texts with a label. Use a task like `classification`, or "
            "give `columns: {tokens: ..., tags: ...}`."
        )
    return sentences


def _example(ids: list[int], word_ids: list[int | None], gold: list[int], n_labels: int, is_cut: bool) -> Example:
    labels = np.full(len(ids), IGNORE, dtype=np.int64)
    first_subwords = np.full(len(gold), -1, dtype=np.int64)
    previous, end = None, 0
    for place, word in enumerate(word_ids):
        if word is not None and word != previous:
            first_subwords[word] = place
            labels[place] = gold[word] if gold[word] < n_labels else IGNORE
            end = word + 1
        previous = word
    cut = len(gold) - end if is_cut else 0
    return Example(np.array(ids, dtype=np.int64), labels, np.array(gold, dtype=np.int64), first_subwords, cut=cut)


TASKS.register("pos")(PosTagging())
TASKS.register("ner")(EntityRecognition())

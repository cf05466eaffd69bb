"""Tokenise a corpus once per node for all trials with the same corpus, tokenizer, task and recipe."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

import numpy as np

from trials.cache.set_up import SetUpWork, counted
from trials.datasets.corpus import SPLITS, Item
from trials.datasets.documents import document_indices
from trials.encoding.encoded_corpus import EncodedCorpus
from trials.encoding.token_cache import cached_or_encoded, file_stamps, token_key
from trials.escaping.plain_files import Stamp
from trials.models.load import has_token_types, load_tokenizer
from trials.settings import DataSpec, ModelSpec
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.reading import read_corpus
from trials.tasks.task import Encoding, Split, unit_of, unseen_labels

CHUNK = 1_000  # items that the tokenizer takes at once


def encode_for(spec: TrialSpec) -> EncodedCorpus:
    """The encoded corpus of a trial."""
    what = spec.task, spec.data, spec.model, spec.max_length, spec.lowercase
    encoded, mapped = _encode(*what)
    if mapped is not None and file_stamps(token_key(*what)) not in (mapped, None):
        _encode.cache_clear()  # these are other files than those that were checked
        encoded, _ = _encode(*what)
    return encoded


@lru_cache(maxsize=4)
def _encode(
    task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool
) -> tuple[EncodedCorpus, tuple[Stamp, ...] | None]:
    """The corpus, and the stamps of the files that hold it."""
    key = token_key(task_name, data, model, max_length, lowercase)
    stamps = file_stamps(key)
    encoded = cached_or_encoded(key, lambda: _tokenised(task_name, data, model, max_length, lowercase))
    return encoded, stamps or file_stamps(key)


def _tokenised(task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> EncodedCorpus:
    corpus, task = read_corpus(task_name, data), TASKS[task_name]
    labels = task.label_names(corpus.train)
    extra = () if task.regression else unseen_labels([*corpus.dev, *corpus.test, *corpus.mismatched], labels)
    names = (*labels, *sorted(extra))
    how = Encoding(load_tokenizer(model, task.head), max_length, lowercase, has_token_types(model))

    def encoded(name: str) -> Split:
        items: list[Item] = getattr(corpus, name)
        chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
        work = SetUpWork(f"encoding {data.name} {name}", len(items), unit_of(task))
        found = (task.encode(chunk, names, len(labels), how) for chunk in counted(chunks, work, len))
        documents = document_indices(items)
        return Split([*chain.from_iterable(found)], None if documents is None else np.array(documents, np.int64))

    return EncodedCorpus(labels, names, how.tokenizer.pad_token_id, *map(encoded, SPLITS))

"""Tokenise a corpus once per node for all trials with the same corpus, tokenizer, task and recipe."""

from __future__ import annotations

from functools import lru_cache, partial

from trials.datasets.corpus import SPLITS, Item
from trials.encoding.encoded_corpus import EncodedCorpus
from trials.encoding.token_cache import cached_or_encoded, token_key
from trials.models.load import family_of, load_tokenizer
from trials.settings import DataSpec, ModelSpec
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.reading import read_corpus
from trials.tasks.task import Split, unseen_labels


def encode_for(spec: TrialSpec) -> EncodedCorpus:
    """The encoded corpus of a trial."""
    return _encode(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


@lru_cache(maxsize=4)
def _encode(task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> EncodedCorpus:
    key = token_key(task_name, data, model, max_length, lowercase)
    return cached_or_encoded(key, lambda: _tokenised(task_name, data, model, max_length, lowercase))


def _tokenised(task_name: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> EncodedCorpus:
    corpus, task = read_corpus(task_name, data), TASKS[task_name]
    labels = task.label_names(corpus.train)
    extra = () if task.regression else unseen_labels([*corpus.dev, *corpus.test, *corpus.mismatched], labels)
    names = (*labels, *sorted(extra))
    tokenizer, token_types = load_tokenizer(model, task.head), family_of(model).token_types

    encode = partial(task.encode, max_length=max_length, lowercase=lowercase, token_types=token_types)

    def encoded(items: list[Item]) -> Split:
        return Split(encode(items, names, len(labels), tokenizer) if items else [])

    return EncodedCorpus(labels, names, tokenizer.pad_token_id, *(encoded(getattr(corpus, split)) for split in SPLITS))

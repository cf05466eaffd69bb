"""Check a corpus before training: sizes, labels, lengths, and sentences that occur in two splits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trials.corpora.corpus import SPLITS, Corpus, Item, document_indices, item_words, label_counts, word_counts

# Upper bounds of the histogram's bins, in words.
LENGTHS = (5, 10, 20, 40, 80)


@dataclass(frozen=True)
class SplitCheck:
    """Counts of one split.

    Attributes:
        words: Number of words; in texts, of parts between spaces.
        labels: How often each label occurs, the most frequent first.
        lengths: Number of items of up to 5, 10, 20, 40, 80 words, and of more.
        repeated: Items with the same text as another item of the split.
        vocabulary: Number of different words.
        one_word: Items of a single word.
        commonest: The most frequent word, and how often it occurs.
        documents: How many documents the items are of; 0 where the corpus does not say.
    """

    items: int
    words: int
    labels: dict[str, int]
    lengths: tuple[int, ...]
    longest: int
    repeated: int
    vocabulary: int
    one_word: int
    commonest: tuple[str, int]
    documents: int = 0


@dataclass(frozen=True)
class CorpusCheck:
    """Counts of a corpus.

    Attributes:
        splits: By split; splits that the corpus lacks are left out.
        shared: (split, other split) -> how many items of the first also occur, word for word, in the second.
        shared_documents: Likewise how many documents of the first are also in the second.
        unseen: split -> labels that do not occur in train, and how often they occur.
    """

    splits: dict[str, SplitCheck]
    shared: dict[tuple[str, str], int]
    shared_documents: dict[tuple[str, str], int]
    unseen: dict[str, dict[str, int]]


def check_corpus(corpus: Corpus) -> CorpusCheck:
    """Count everything. The numbers of a regression are counted as labels, as they are written."""
    items: dict[str, list[Item]] = {name: getattr(corpus, name) for name in SPLITS if getattr(corpus, name)}
    texts = {name: [item_words(item) for item in split] for name, split in items.items()}
    splits = {name: _check_split(split) for name, split in items.items()}
    pairs = [
        (name, other)
        for name, other in (("dev", "train"), ("test", "train"), ("mismatched", "train"), ("test", "dev"))
        if name in texts and other in texts
    ]
    insides = {name: set(of_split) for name, of_split in texts.items()}
    shared = {(name, other): sum(text in insides[other] for text in texts[name]) for name, other in pairs}
    documents = {name: {item.document for item in split} - {None} for name, split in items.items()}
    shared_documents = {(name, other): len(documents[name] & documents[other]) for name, other in pairs}
    train_labels = splits["train"].labels
    unseen = {
        name: {label: n for label, n in split.labels.items() if label not in train_labels}
        for name, split in splits.items()
        if name != "train"
    }
    return CorpusCheck(splits, shared, shared_documents, unseen)


def _check_split(items: list[Item]) -> SplitCheck:
    """Count what one split, which must not be empty, contains."""
    texts = [item_words(item) for item in items]
    words = word_counts(items)
    bars = Counter(next((i for i, bound in enumerate(LENGTHS) if len(text) <= bound), len(LENGTHS)) for text in texts)
    return SplitCheck(
        items=len(items),
        words=words.total(),
        labels=dict(label_counts(items).most_common()),
        lengths=tuple(bars[i] for i in range(len(LENGTHS) + 1)),
        longest=max(map(len, texts)),
        repeated=len(texts) - len(set(texts)),
        vocabulary=len(words),
        one_word=sum(len(text) == 1 for text in texts),
        commonest=words.most_common(1)[0],
        documents=len(set(document_indices(items) or ())),
    )

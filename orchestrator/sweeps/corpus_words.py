"""Lines that show how a corpus was read (sizes, labels, words, examples), so that a misreading is noticed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from orchestrator.config.quantities import amount
from trials.corpora.corpus import Item, Text, item_words, label_counts, labels_of, word_counts
from trials.errors import quote
from trials.spec import DataSpec
from trials.tasks.task import TASKS, unit_of
from trials.tasks.task_corpus import read_corpus

N_EXAMPLES = 3  # that a plan shows of train
_MOST_CORPORA = 3  # whose examples a plan shows
_MOST_LABELS = 8  # named in a line
_WIDTH = 100  # characters of an example


def corpus_lines(task: str, data: DataSpec) -> list[str]:
    """The counts of train by which a person sees that a corpus was misunderstood, and its examples."""
    train = read_corpus(task, data).train
    words = word_counts(train)
    (word, n), n_words = words.most_common(1)[0], words.total()
    n_single = sum(len(item_words(item)) == 1 for item in train)
    labels = "numbers" if TASKS[task].regression else _shares(dict(label_counts(train).most_common()))
    unit = "sentence" if TASKS[task].head == "tokens" else "text"
    kind = "tags" if TASKS[task].head == "tokens" else "labels"
    counts = f"{n_words:,} words, {len(words):,} different, most often {quote(word)} ({percent(n, n_words)})"
    one_word_items = f"{amount(n_single, unit)} of one word ({percent(n_single, len(train))})"
    return [
        f"{kind}: {labels}",
        f"{counts}; {one_word_items}",
        *(f"e.g. {example}" for example in examples(train)),
    ]


def split_size(data: DataSpec, split: Literal["train", "dev", "test"], unit: str = "") -> str:
    """How large a split is: `500 dev sentences of 40 documents`; without a unit `500 dev of 40 documents`."""
    index = ("train", "dev", "test").index(split)
    assert data.sizes is not None
    documents = data.documents[index] if data.documents else 0
    documents_part = f" of {amount(documents, 'document')}" if documents else ""
    return f"{data.sizes[index]:,} {split}{f' {unit}' if unit else ''}{documents_part}"


def dev_size(task: str, data: DataSpec) -> str:
    """How large dev is; empty where the corpus does not say."""
    return split_size(data, "dev", unit_of(task)) if data.sizes else ""


def corpora_lines(corpora: Sequence[tuple[str, DataSpec]]) -> Iterator[str]:
    """How the corpora of a plan were understood: the task and corpus of each."""
    for task, data in corpora[:_MOST_CORPORA]:
        yield f"{data.name} ({task}, {data.format}): {dev_size(task, data)}"
        yield from corpus_lines(task, data)
    if len(corpora) > _MOST_CORPORA:
        more = ", ".join(data.name for _, data in corpora[_MOST_CORPORA:])
        yield f"and {more}; `permafrost data check --sweep FILE` shows them"


def examples(items: Sequence[Item]) -> list[str]:
    """Three items as they were understood, each with another label if there are as many, or another set of tags."""
    chosen = dict[frozenset[str], Item]()
    for item in items:
        labels = frozenset(labels_of(item))
        if labels not in chosen and (isinstance(item, Text) or len(labels) > 1):
            chosen[labels] = item
        if len(chosen) == N_EXAMPLES:
            break
    rest = (item for item in items if item not in chosen.values())
    return [_example(item) for _, item in zip(range(N_EXAMPLES), [*chosen.values(), *rest], strict=False)]


def _example(item: Item) -> str:
    if isinstance(item, Text):
        texts = [" ".join(text.split()) for text in (item.text, item.pair) if text is not None]
        return f"{' | '.join(_shorten(text, _WIDTH // len(texts)) for text in texts)} => {item.label}"
    return _shorten(" ".join(f"{form}/{tag}" for form, tag in zip(item.forms, item.tags, strict=True)), _WIDTH)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 4]} ..."


def _shares(labels: dict[str, int]) -> str:
    total = sum(labels.values())
    shown = ", ".join(f"{label} {percent(n, total)}" for label, n in list(labels.items())[:_MOST_LABELS])
    rest = len(labels) - _MOST_LABELS
    return f"{shown} and {rest} more" if rest > 0 else shown


def percent(n: int, total: int) -> str:
    """A share as a person reads it: `12.5 %`."""
    return f"{100 * n / total:.1f} %" if total else "0.0 %"

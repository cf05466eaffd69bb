"""Inputs of the cost model: dimensions of the encoder from config.json, lengths in subwords from the tokenizer.

Neither torch nor transformers is imported; the `tokenizers` library counts the subwords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from trials.datasets.corpus import Item, Sentence, item_words
from trials.escaping.plain_files import read_json
from trials.settings import DataSpec, ModelSpec
from trials.spec import TrialSpec
from trials.tasks.reading import read_corpus

MOST_READ = 2_000  # items of a split whose lengths represent all
SUBWORDS_A_WORD, SPECIALS = 1.4, 2  # for a model without tokenizer.json
_WIDTH = ("hidden_size", "dim", "d_model", "n_embd")
_INNER = ("intermediate_size", "hidden_dim", "d_ff", "encoder_ffn_dim", "n_inner")
_POSITIONS = ("max_position_embeddings", "n_positions")


@dataclass(frozen=True)
class EncoderSizes:
    """Dimensions of an encoder.

    Attributes:
        width: Hidden size of a layer.
        inner: Hidden size of the feed-forward block.
        table: Parameters of all embedding tables.
        table_width: Width of the subword embeddings.
    """

    layers: int
    width: int
    inner: int
    table: int
    table_width: int

    @property
    def layer(self) -> int:
        """Parameters of one layer without biases and norms: four projections and two feed-forward matrices."""
        return 4 * self.width**2 + 2 * self.width * self.inner

    @property
    def total(self) -> int:
        """Parameters of the encoder."""
        return self.table + self.layers * self.layer


@dataclass(frozen=True, eq=False)
class Lengths:
    """Lengths in subwords of the items of each split, with special tokens, truncated as in the trial.

    Attributes:
        train, dev, test: (items,) sorted lengths of the split, or of its first `MOST_READ` items.
        n_train, n_dev, n_test: Number of items of the whole split.
    """

    train: np.ndarray
    dev: np.ndarray
    test: np.ndarray
    n_train: int
    n_dev: int
    n_test: int


def sizes_of(model: ModelSpec) -> EncoderSizes:
    """The dimensions of a model, from its config.json. Raises OSError, ValueError: The file or its width is missing."""
    config = read_json(Path(model.path) / "config.json")
    width = int(_first(config, _WIDTH, 0))
    if width < 1:
        raise ValueError(f"{model.path}/config.json: has no hidden size ({', '.join(_WIDTH)})")
    row = int(config.get("embedding_size") or width)
    rows = int(config.get("vocab_size") or 0) + _first(config, _POSITIONS, 0)
    return EncoderSizes(model.n_layers, width, int(_first(config, _INNER, 4 * width)), rows * row, row)


def _first(config: dict[str, object], names: Sequence[str], other: int) -> int:
    return next((value for name in names if isinstance(value := config.get(name), int)), other)


def lengths_of(spec: TrialSpec) -> Lengths:
    """The lengths in the corpus of a trial; cached in memory. Raises DataError, OSError, ValueError."""
    return _lengths(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)


@lru_cache(maxsize=64)
def _lengths(task: str, data: DataSpec, model: ModelSpec, max_length: int, lowercase: bool) -> Lengths:
    corpus = read_corpus(task, data)
    splits = corpus.train, corpus.dev, [*corpus.test, *corpus.mismatched]  # the last are scored once
    train, dev, test = (_counted(items[:MOST_READ], model, max_length, lowercase) for items in splits)
    return Lengths(train, dev, test, *map(len, splits))


def _counted(items: Sequence[Item], model: ModelSpec, max_length: int, lowercase: bool) -> np.ndarray:
    """(items,) lengths, sorted."""
    path = Path(model.path) / "tokenizer.json"
    if not items:
        return np.zeros(0, np.int64)
    if not path.is_file():
        words = np.array([len(item_words(item)) for item in items])
        return np.sort(np.minimum(np.round(SUBWORDS_A_WORD * words).astype(np.int64) + SPECIALS, max_length))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    of_words = isinstance(items[0], Sentence)
    inputs = [_input(item, lowercase) for item in items]
    return np.sort(np.array([len(e.ids) for e in tokenizer.encode_batch(inputs, is_pretokenized=of_words)]))


def _input(item: Item, lowercase: bool) -> object:
    if isinstance(item, Sentence):
        return [form.lower() if lowercase else form for form in item.forms]
    texts = [text.lower() if lowercase else text for text in (item.text, item.pair) if text is not None]
    return (texts[0], texts[1]) if len(texts) == 2 else texts[0]


def padded_length(lengths: np.ndarray, batch_size: int, *, window: int = 1) -> float:
    """Mean padded length of an item, in subwords, in batches drawn at random.

    The largest of b draws exceeds l with probability 1 - F(l)^b; its mean is the sum of that over l = 0, 1, 2 ...
    With a `window` of several batches sorted by length, batch j of it reaches about the quantile (j + 1) / window.
    """
    if window > 1:
        return float(np.quantile(lengths, np.arange(1, window + 1) / (window + 1 / batch_size)).mean())
    share = np.searchsorted(lengths, np.arange(int(lengths.max())), side="right") / len(lengths)
    return float((1 - share**batch_size).sum())

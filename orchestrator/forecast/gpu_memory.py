"""The peak memory of a trial on a GPU, estimated from shapes before any trial of its kind was measured there.

The dimensions of the encoder come from its config.json, lengths in subwords from its tokenizer. Neither torch nor
transformers is imported; the `tokenizers` library counts the subwords.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from trials.datasets.corpus import Item, Sentence, item_words
from trials.errors import PermafrostError
from trials.outside.plain_files import read_json
from trials.prefix.work import learning_layers
from trials.settings import DataSpec, ModelSpec
from trials.spec import TrialSpec
from trials.tasks.task import read_corpus
from trials.training.step_rule import EVAL_BATCH, RESIDENT_BYTES

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
        n_words = np.array([len(item_words(item)) for item in items])
        return np.sort(np.minimum(np.round(SUBWORDS_A_WORD * n_words).astype(np.int64) + SPECIALS, max_length))
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


def inputs_of(spec: TrialSpec) -> tuple[EncoderSizes, Lengths] | None:
    """The sizes and lengths of a trial; None if its files cannot be read."""
    try:
        return sizes_of(spec.model), lengths_of(spec)
    except (OSError, ValueError, PermafrostError):
        return None


LAZY_ROWS = 1_024  # of a table whose rows earlier versions could update one by one


def gpu_bytes(spec: TrialSpec, sizes: EncoderSizes, lengths: Lengths) -> float:
    """The peak of torch's allocator, in bytes of 32-bit numbers: weights; gradients, two moments and best weights of
    what learns; the longest batch of training or evaluation; and the corpora that reside.
    """
    longest = float(lengths.train.max())
    passed, _ = learning_layers(spec, spec.always_frozen, sizes.layers)
    a_token = 8 * sizes.width + 2 * sizes.inner  # values per token that a layer stores for its backward pass, about
    activations = spec.optim.batch_size * longest * a_token * max(passed, 1)
    evaluating = EVAL_BATCH * float(lengths.dev.max(initial=0)) * a_token
    learning = 4.0 * _learned(spec, sizes, longest)
    splits = ((lengths.train, spec.train_size), (lengths.dev, lengths.n_dev), (lengths.test, lengths.n_test))
    resident = [16.0 * n * float(split.max(initial=0)) for split, n in splits]  # ids and labels, 8 bytes each
    held = sum(n for n in resident if n <= RESIDENT_BYTES)
    return 4.0 * (sizes.total + learning + max(activations, evaluating)) + held


def _learned(spec: TrialSpec, sizes: EncoderSizes, longest: float) -> float:
    """Parameters that an optimiser step updates."""
    freeze = spec.always_frozen
    table = 0.0 if freeze.embeddings else float(sizes.table)
    if spec.optim.embedding_updates == "lazy":
        table = min(table, (longest * spec.optim.batch_size + LAZY_ROWS) * sizes.table_width)
    if spec.lora is not None:
        return table + sizes.layers * 4.0 * spec.lora.rank * sizes.width
    return table + (sizes.layers - len(freeze.layers)) * sizes.layer

"""The work of a trial, which decides its cost: steps, operations forward and backward, parameters updated.

Operations are counted as in Kaplan et al. 2020, "Scaling laws for neural language models", section 2.1: two per weight
and token forward, plus the products of attention for all pairs of tokens; backward the same for the gradient that
passes through a layer and again for the gradients of its weights. Frozen layers below the lowest trained one run only
forward, and not at all if their output is cached (`trials.prefix.rule`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from trials.cache.node_cache import existing_folder
from trials.datasets.corpus import Item, Sentence, item_words
from trials.escaping import read_json
from trials.models.family import MODEL_FAMILIES
from trials.prefix.rule import cached_depth, freeze_at, learning_layers, prefix_key
from trials.settings import DataSpec, FreezeSpec, ModelSpec
from trials.spec import TrialSpec, evaluation_steps, steps_an_epoch
from trials.tasks.task import head_of, read_corpus
from trials.training.step_rule import EVAL_BATCH, GPU_LENGTHS, LENGTH_WINDOW, RESIDENT_BYTES, graphs_are_off

# Inputs of the cost model: dimensions of the encoder from config.json, lengths in subwords from the tokenizer.
#
# Neither torch nor transformers is imported; the `tokenizers` library counts the subwords.

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


def padded_length(lengths: np.ndarray, batch_size: int, *, window: int = 1) -> float:
    """Mean padded length of an item, in subwords, in batches drawn at random.

    The largest of b draws exceeds l with probability 1 - F(l)^b; its mean is the sum of that over l = 0, 1, 2 ...
    With a `window` of several batches sorted by length, batch j of it reaches about the quantile (j + 1) / window.
    """
    if window > 1:
        return float(np.quantile(lengths, np.arange(1, window + 1) / (window + 1 / batch_size)).mean())
    share = np.searchsorted(lengths, np.arange(int(lengths.max())), side="right") / len(lengths)
    return float((1 - share**batch_size).sum())


GIGA = 1e9
LAZY_ROWS = 1_024  # of a table whose rows earlier versions could update one by one


@dataclass(frozen=True)
class Work:
    """The computation of a trial, in units that time is proportional to.

    Attributes:
        forward: Operations of training forward, in billions.
        backward: Operations of training backward, in billions.
        moved: Parameters updated by an optimiser step, times steps, in billions.
        touched: Values in all padded tokens of training, in billions: collated and read from memory.
        evaluations: Evaluations on dev, plus one on test.
        evaluated: Operations of evaluation, in billions.
        scored: Items evaluated.
    """

    steps: float
    forward: float
    backward: float
    moved: float
    touched: float
    evaluations: float
    evaluated: float
    scored: float

    def share(self, part: float) -> Work:
        """A fraction of this work."""
        return Work(*(part * value for value in astuple(self)))

    @property
    def training(self) -> tuple[float, ...]:
        """The terms of the time of training."""
        return self.steps, self.forward, self.backward, self.moved, self.touched

    @property
    def evaluation(self) -> tuple[float, ...]:
        """The terms of the time of evaluation."""
        return self.evaluations, self.evaluated, self.scored


@dataclass(frozen=True)
class Memory:
    """The terms of the peak memory of a trial, in bytes of 32-bit numbers.

    Attributes:
        base: 1, for the program and its libraries.
        learning: Gradients and two moments of the trained parameters.
        activations: Activations of the layers with gradients, for the longest batch.
        evaluating: The longest batch of an evaluation.
    """

    base: float
    weights: float
    learning: float
    activations: float
    evaluating: float

    @property
    def terms(self) -> tuple[float, ...]:
        """All terms, in order."""
        return self.base, self.weights, self.learning, self.activations, self.evaluating


MEMORY_SHARES = (0.40, 0.15, 0.20, 0.15, 0.10)  # of the terms, for observations that cannot separate them


@dataclass(frozen=True)
class PrefixWork:
    """Computing states of frozen layers once.

    Attributes:
        items, forward: Sentences, and operations in billions, of all splits.
        train_items, train_forward: Those of them that are in the train split.
    """

    items: float
    forward: float
    train_items: float = 0.0
    train_forward: float = 0.0

    @property
    def of_train(self) -> PrefixWork:
        """The work of the train split alone."""
        return PrefixWork(self.train_items, self.train_forward, self.train_items, self.train_forward)


def shape_key(spec: TrialSpec) -> str:
    """The shape of a trial: everything that decides the time of a step, so not the number of steps."""
    frozen = [spec.freeze.layers, spec.freeze.embeddings, spec.thaw_every, cached_depth(spec), spec.frozen_dropout]
    frozen += [] if spec.freeze.rule is None else [spec.freeze.rule.model_dump(mode="json")]
    batches = ["padding-free"] if lies_end_to_end(spec, gpu=False) else []
    optim = [spec.optim.batch_size, spec.batching, spec.optim.embedding_updates, *batches]
    return _digest([group_key(spec), spec.precision, *frozen, *optim, spec.lora.model_dump() if spec.lora else None])


def group_key(spec: TrialSpec) -> str:
    """Key of the model, task and corpus of a trial."""
    return _digest([spec.task, spec.model.revision, spec.data.content(), spec.max_length, spec.lowercase])


def lies_end_to_end(spec: TrialSpec, *, gpu: bool) -> bool:
    """Whether the trial's batches lie end to end, as on a CPU those of most families do; on a GPU they are padded."""
    if gpu:
        return False
    if spec.model.family not in MODEL_FAMILIES:
        return True
    family = MODEL_FAMILIES[spec.model.family]
    return family.padding_free and not (family.causal and head_of(spec.task) == "text")


def is_replayed(spec: TrialSpec) -> bool:
    """Whether the trial's steps on a GPU are replayed as CUDA graphs, unless a node refuses them: of families that take
    a ready mask, and where the environment does not turn them off.
    """
    return (
        not graphs_are_off() and spec.model.family in MODEL_FAMILIES and MODEL_FAMILIES[spec.model.family].square_mask
    )


def _computed_lengths(spec: TrialSpec, lengths: np.ndarray, *, gpu: bool) -> np.ndarray:
    """(n,) subwords that are computed for train items: their own, or one padded length."""
    if lies_end_to_end(spec, gpu=gpu):
        return lengths.astype(float)
    window = LENGTH_WINDOW if spec.batching == "length" else 1
    if gpu:  # as a batch's longest is rounded up, so is each item
        lengths = np.minimum(_rounded_up(lengths), lengths.max())
    return np.array([padded_length(lengths, spec.optim.batch_size, window=window)])


def _rounded_up(lengths: np.ndarray) -> np.ndarray:
    return -(-lengths // GPU_LENGTHS) * GPU_LENGTHS


def work_of(spec: TrialSpec, sizes: EncoderSizes, lengths: Lengths, *, gpu: bool) -> Work:
    """The work of a whole trial, on a CPU or on a GPU."""
    cached, epochs, items = cached_depth(spec), spec.optim.epochs, spec.train_size
    steps = steps_an_epoch(spec) * epochs
    computed = _computed_lengths(spec, lengths.train, gpu=gpu)
    length = float(computed.mean())
    per_layer = _operations(sizes, computed) * items / GIGA
    backward = moved = 0.0
    for epoch in range(epochs):
        passed, learning = learning_layers(spec, freeze_at(spec, epoch), sizes.layers)
        backward += per_layer * (passed + learning)
        moved += _moved(spec, freeze_at(spec, epoch), sizes, length) * steps / epochs / GIGA
    evaluations = len(evaluation_steps(steps, epochs, spec.eval_every))
    of_dev, of_test = (_evaluated(split, n, sizes) for split, n in _evaluation_splits(lengths))
    return Work(
        steps=steps,
        forward=per_layer * epochs * (sizes.layers - cached),
        backward=backward,
        moved=moved,
        touched=length * items * epochs * sizes.width / GIGA,
        evaluations=evaluations + (lengths.n_test > 0),
        evaluated=(evaluations * of_dev + of_test) * (sizes.layers - cached),
        scored=evaluations * lengths.n_dev + lengths.n_test,
    )


def epoch_passes(spec: TrialSpec) -> float:
    """The work of an epoch as passes of a sentence through one layer, forward or backward; the head is a layer.

    It needs no sizes and no corpus, and ranks the settings of a sweep: frozen ones take a small part of the time.
    """
    epochs, layers = spec.optim.epochs, spec.model.n_layers
    backward = sum(sum(learning_layers(spec, freeze_at(spec, epoch), layers)) for epoch in range(epochs)) / epochs
    forward = layers - cached_depth(spec) + 1
    n_dev = spec.data.sizes[1] if spec.data.sizes else 0
    return spec.train_size * (forward + backward + 2) + n_dev * forward / spec.eval_every


def memory_of(spec: TrialSpec, sizes: EncoderSizes, lengths: Lengths, *, gpu: bool) -> Memory:
    """The memory of a trial at its peak, on a CPU or on a GPU."""
    freeze, longest = spec.always_frozen, float(lengths.train.max())
    passed, _ = learning_layers(spec, freeze, sizes.layers)
    tokens = spec.optim.batch_size * longest
    if lies_end_to_end(spec, gpu=gpu):  # the largest of many batches is three deviations above the mean
        spread = 3 * float(lengths.train.std()) * spec.optim.batch_size**0.5
        tokens = min(tokens, spec.optim.batch_size * float(lengths.train.mean()) + spread)
    a_token = (
        8 * sizes.width + 2 * sizes.inner
    )  # approximate values per token that a layer stores for its backward pass
    evaluating = EVAL_BATCH * float(lengths.dev.max(initial=0)) * a_token
    return Memory(
        base=1.0,
        weights=4.0 * sizes.total,
        learning=12.0 * _moved(spec, freeze, sizes, longest),
        activations=4.0 * tokens * a_token * max(passed, 1),
        evaluating=4.0 * evaluating,
    )


def gpu_bytes(spec: TrialSpec, sizes: EncoderSizes, lengths: Lengths) -> float:
    """The peak of torch's allocator on a GPU, estimated before any trial of this kind was measured there: weights,
    gradients and moments, the best weights, the longest batch of training or evaluation, and the corpora that reside.
    """
    memory, longest = memory_of(spec, sizes, lengths, gpu=True), float(lengths.train.max())
    best = 4.0 * _moved(spec, spec.always_frozen, sizes, longest)
    batch = max(memory.activations, memory.evaluating)
    splits = ((lengths.train, spec.train_size), *_evaluation_splits(lengths))
    resident = [16.0 * n * float(split.max(initial=0)) for split, n in splits]  # ids and labels, 8 bytes each
    return memory.weights + memory.learning + best + batch + sum(n for n in resident if n <= RESIDENT_BYTES)


def cached_here(spec: TrialSpec, depth: int) -> bool:
    """Whether this machine has the states of a corpus at a depth, cached by earlier sweeps."""
    return existing_folder("prefix", prefix_key(spec, depth)) is not None


def nothing_cached(spec: TrialSpec, depth: int) -> bool:
    """No states, as on a machine without a cache."""
    return False


class PrefixLedger:
    """The cached states of frozen layers after the trials so far; the first trial that needs them computes them."""

    def __init__(self, is_cached: Callable[[TrialSpec, int], bool]) -> None:
        """`is_cached`: whether the states for a corpus and a depth are cached before the first trial."""
        self._cached: dict[str, dict[int, float]] = {}  # corpus and model -> depth -> cached share of train
        self._is_cached = is_cached

    def take(self, spec: TrialSpec, sizes: EncoderSizes, lengths: Lengths) -> PrefixWork:
        """The states that the next trial has to compute, starting from the deepest cached ones."""
        depth = cached_depth(spec)
        if depth == 0:
            return PrefixWork(0.0, 0.0)
        cached = self._cached.setdefault(prefix_key(spec, 0), {})
        if depth not in cached and self._is_cached(spec, depth):
            cached[depth] = 1.0
        before, below = cached.get(depth), max((d for d in cached if d < depth), default=0)
        missing = spec.train_size * (1 - (before or 0.0))
        splits = [(lengths.train, missing)]
        if before is None:
            splits += _evaluation_splits(lengths)
        cached[depth] = 1 - (1 - (before or 0.0)) * (1 - min(spec.train_size / lengths.n_train, 1.0))
        layers = (depth - below) / GIGA
        forward = [_operations(sizes, split) * n * layers if len(split) else 0.0 for split, n in splits]
        return PrefixWork(sum(n for _, n in splits), sum(forward), missing, forward[0])


def _operations(sizes: EncoderSizes, lengths: np.ndarray) -> float:
    """Operations of one layer forward over an item: the mean of items of these lengths in tokens."""
    return float((lengths * (2.0 * sizes.layer + 4.0 * lengths * sizes.width)).mean())


def _moved(spec: TrialSpec, freeze: FreezeSpec, sizes: EncoderSizes, padded: float) -> float:
    """Parameters that one optimiser step updates."""
    table = 0.0 if freeze.embeddings else float(sizes.table)
    if spec.optim.embedding_updates == "lazy":
        table = min(table, (padded * spec.optim.batch_size + LAZY_ROWS) * sizes.table_width)
    if spec.lora is not None:
        return table + sizes.layers * 4.0 * spec.lora.rank * sizes.width
    return table + (sizes.layers - len(freeze.layers)) * sizes.layer


def _evaluation_splits(lengths: Lengths) -> list[tuple[np.ndarray, float]]:
    return [(lengths.dev, lengths.n_dev), (lengths.test, lengths.n_test)]


def _evaluated(split: np.ndarray, n: float, sizes: EncoderSizes) -> float:
    """Operations of one layer over a split, in billions; batches are sorted by length, so padding is ignored."""
    if not len(split):
        return 0.0
    return _operations(sizes, split) * n / GIGA


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]

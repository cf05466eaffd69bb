"""What the starter model is pre-trained on: corpora, their vocabulary, packed rows, masked subwords."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from trials.datasets.conllu_reader import read_conllu
from trials.settings import Columns

VOCAB_SIZE = 8_000
ROW = 128  # subwords a packed row, and the model's number of positions
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)


@dataclass(frozen=True)
class PretrainingCorpus:
    """The sentences of one file and how often an epoch reads them; prose may be joined into longer passages."""

    path: Path
    times: int
    sentences: list[str]
    prose: bool


def read_treebank(path: Path) -> list[str]:
    """The sentences of a CoNLL-U file, words separated by one space."""
    return [" ".join(s.forms) for s in read_conllu(path, Columns())]


def read_corpus(argument: str, excluded: frozenset[str] = frozenset()) -> PretrainingCorpus:
    """Parse `FILE:TIMES` and read the sentences of the file, of a treebank without those in `excluded`."""
    file, _, times = argument.rpartition(":")
    path = Path(file)
    if path.suffix == ".conllu":
        sentences = [sentence for sentence in read_treebank(path) if sentence not in excluded]
        return PretrainingCorpus(path, int(times), sentences, prose=False)
    lines = path.read_text(encoding="utf-8").splitlines()
    return PretrainingCorpus(path, int(times), [line for line in lines if line.strip()], prose=True)


def train_tokenizer(corpora: list[PretrainingCorpus]) -> Tokenizer:
    """A lower-cased WordPiece vocabulary of 8,000, counted over the corpora as an epoch weighs them."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCAB_SIZE, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator((s for c in corpora for _ in range(c.times) for s in c.sentences), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    return tokenizer


Units = list[np.ndarray]
Row = list[np.ndarray]  # the sequences of one packed row
EncodedCorpora = list[tuple[PretrainingCorpus, list[list[int]]]]  # each corpus with the subword ids of its sentences


def epoch_units(encoded: EncodedCorpora, rng: np.random.Generator) -> Units:
    """One epoch's sequences in random order, each `[CLS] ... [SEP]` of at most ROW subwords.

    One prose sentence in ten opens a passage that fills a row, so that late positions are trained as well.
    """
    units: Units = []
    for corpus, sentences in encoded:
        for _ in range(corpus.times):
            units.extend(_passages(sentences, rng) if corpus.prose else map(_unit, sentences))
    return [units[i] for i in rng.permutation(len(units))]


def _unit(ids: list[int]) -> np.ndarray:
    return np.array([CLS, *ids[: ROW - 2], SEP], dtype=np.int64)


def _passages(sentences: list[list[int]], rng: np.random.Generator) -> Iterator[np.ndarray]:
    opens = rng.random(len(sentences)) < 0.1
    i = 0
    while i < len(sentences):
        ids, long = list(sentences[i]), opens[i]
        i += 1
        while long and i < len(sentences) and len(ids) + len(sentences[i]) <= ROW - 2:
            ids += sentences[i]
            i += 1
        yield _unit(ids)


def pack(units: Units, n_open: int = 64) -> Iterator[Row]:
    """Rows of at most ROW subwords: each sequence goes to the fullest of `n_open` open rows that still holds it."""
    rows: list[Row] = [[] for _ in range(n_open)]
    room = np.full(n_open, ROW)
    for unit in units:
        fits = np.where(room >= len(unit), room, ROW + 1)
        best = int(fits.argmin())
        if fits[best] > ROW:
            best = int(room.argmin())
            yield rows[best]
            rows[best], room[best] = [], ROW
        rows[best].append(unit)
        room[best] -= len(unit)
    yield from (row for row in rows if row)


@dataclass(frozen=True)
class MaskedBatch:
    """Packed rows; sequences of one row do not see each other.

    Attributes:
        ids: (rows, ROW) input ids, some of them masked.
        positions: (rows, ROW) positions, from 0 in every sequence.
        visible: (rows, 1, ROW, ROW) which subword sees which.
        chosen: (n,) flat indices of the subwords to predict.
        gold: (n,) what they were.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    visible: torch.Tensor
    chosen: torch.Tensor
    gold: torch.Tensor


def mask_rows(rows: list[Row], share: float, rng: np.random.Generator) -> MaskedBatch:
    """BERT's masking (Devlin et al. 2019): of the chosen, 80 % [MASK], 10 % a random subword, 10 % unchanged."""
    ids = np.full((len(rows), ROW), PAD, dtype=np.int64)
    owner, positions = np.full_like(ids, -1), np.zeros_like(ids)
    for r, row in enumerate(rows):
        at = 0
        for n, unit in enumerate(row):
            end = at + len(unit)
            ids[r, at:end], owner[r, at:end], positions[r, at:end] = unit, n, np.arange(len(unit))
            at = end
    chosen = np.flatnonzero((ids >= len(SPECIAL)) & (rng.random(ids.shape) < share))
    gold = ids.reshape(-1)[chosen].copy()
    dice = rng.random(len(chosen))
    random_ids = rng.integers(len(SPECIAL), VOCAB_SIZE, len(chosen))
    ids.reshape(-1)[chosen] = np.where(dice < 0.8, MASK, np.where(dice < 0.9, random_ids, gold))
    visible = owner[:, None, :, None] == owner[:, None, None, :]
    return MaskedBatch(*(torch.from_numpy(a) for a in (ids, positions, visible, chosen, gold)))


def read_and_encode(
    arguments: list[str], vocabulary: Path, without: list[Path] | None = None
) -> tuple[Tokenizer, EncodedCorpora]:
    """Read the corpora and encode them with the vocabulary in a file, which is trained on them where there is none.

    Sentences of the treebank files in `without` are excluded from every treebank.
    """
    excluded = frozenset(sentence for path in without or [] for sentence in read_treebank(path))
    corpora = [read_corpus(argument, excluded) for argument in arguments]
    if not vocabulary.exists():
        train_tokenizer(corpora).save(str(vocabulary))
    tokenizer = Tokenizer.from_file(str(vocabulary))
    encodings = (tokenizer.encode_batch(corpus.sentences, add_special_tokens=False) for corpus in corpora)
    return tokenizer, [(c, [e.ids for e in encoded]) for c, encoded in zip(corpora, encodings, strict=True)]

r"""Pre-train the starter model: masked language modelling on plain text and the train split of treebanks.

    python -m tests.lab.starter.pretrain --minutes 60 --out build/starter \
        --corpus books.txt:1 en_ewt-ud-train.conllu:3 pcm_nsc-ud-train.conllu:2

A corpus is `FILE:TIMES`, TIMES being how often an epoch reads it; `.conllu` files give their word forms, any other file
is one sentence a line. The run is seeded, prints its progress, and continues from `OUT/checkpoint.pt` when started
again. A new run starts from random weights, or from an encoder (`--from`), whose masked-language head is then new. The
folder `OUT/model` is what `transformers.AutoModel` loads.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn.functional import gelu
from transformers import DistilBertConfig, DistilBertForMaskedLM, PreTrainedTokenizerFast

from trials.datasets.formats.conllu_reader import read_conllu
from trials.settings import Columns

# What the starter model is pre-trained on: corpora, their vocabulary, packed rows, masked subwords.

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


# --- Training

CHECKPOINT_EVERY_S = 120.0
WEIGHTS = "model.safetensors"


def masked_loss(model: DistilBertForMaskedLM, batch: MaskedBatch) -> torch.Tensor:
    """Mean cross-entropy, with logits computed at the chosen places only."""
    hidden = model.distilbert(
        input_ids=batch.ids, attention_mask=batch.visible, position_ids=batch.positions
    ).last_hidden_state  # (rows, ROW, width)
    chosen = hidden.flatten(0, 1)[batch.chosen]  # (n, width)
    logits = model.vocab_projector(model.vocab_layer_norm(gelu(model.vocab_transform(chosen))))  # (n, vocabulary)
    logits = logits.float()
    # Not cross_entropy: its CPU kernel takes three times as long over so wide a vocabulary.
    loss: torch.Tensor = (logits.logsumexp(dim=-1) - logits.gather(1, batch.gold[:, None]).squeeze(1)).mean()
    return loss


def new_model(dropout: float) -> DistilBertForMaskedLM:
    """Six layers of width 128; dropout of the attention weights would cost a third of the speed."""
    config = DistilBertConfig(
        vocab_size=VOCAB_SIZE, max_position_embeddings=ROW, n_layers=6, dim=128, n_heads=4, hidden_dim=512,
        dropout=dropout, attention_dropout=0.0, pad_token_id=PAD,
        attn_implementation="eager",  # four times as fast here as the fused kernel's backward pass on a CPU
    )  # fmt: skip
    return DistilBertForMaskedLM(config)


def new_optimizers(model: DistilBertForMaskedLM, lr: float) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the encoder's matrices, AdamW for the rest, no decay on vectors.

    With AdamW alone the loss stays longer on its first plateau, and rates above 1e-3 are unstable.
    """
    matrices = [p for p in model.distilbert.transformer.parameters() if p.ndim == 2]
    taken = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in taken]
    groups = [
        {"params": [p for p in rest if p.ndim == 2], "weight_decay": 0.01},
        {"params": [p for p in rest if p.ndim != 2], "weight_decay": 0.0},
    ]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), fused=True),
    ]


class Pretraining:
    """A run that can be stopped and resumed: model, optimisers, position in the data, CPU time spent.

    The learning rate follows the share of the budget that is spent. The budget is CPU time of this process, so that a
    busy machine delays the end of the run, and takes no steps from it.
    """

    def __init__(self, encoded: EncodedCorpora, args: argparse.Namespace) -> None:
        torch.manual_seed(args.seed)
        self.args, self.encoded = args, encoded
        self.model = new_model(args.dropout)
        self.optimizers = new_optimizers(self.model, args.lr)
        self.state: dict[str, Any] = {"step": 0, "epoch": 0, "row": 0, "spent_s": 0.0, "loss": None}
        self.checkpoint: Path = args.out / "checkpoint.pt"
        if self.checkpoint.exists():
            self._load()
        elif args.weights is not None:
            self.model.distilbert.load_state_dict(load_file(args.weights / WEIGHTS))

    def run(self) -> None:
        """Train until the time is spent, printing a line and saving a checkpoint from time to time."""
        budget_s, saved, printed = self.args.minutes * 60, time.monotonic(), -math.inf
        while self.state["spent_s"] < budget_s:
            rows = self._epoch_rows()
            while self.state["row"] < len(rows) and self.state["spent_s"] < budget_s:
                started = time.process_time()
                self._step(rows, self.state["spent_s"] / budget_s)
                self.state["spent_s"] += time.process_time() - started
                now = time.monotonic()
                if now - printed > 10:
                    printed = now
                    self._print()
                if now - saved > CHECKPOINT_EVERY_S:
                    saved = now
                    self._save()
            if self.state["row"] >= len(rows):
                self.state.update(epoch=self.state["epoch"] + 1, row=0)
        self._save()

    def _epoch_rows(self) -> list[Row]:
        rng = np.random.default_rng([self.args.seed, self.state["epoch"]])
        return list(pack(epoch_units(self.encoded, rng)))

    def _step(self, rows: list[Row], progress: float) -> None:
        share = min(1.0, progress / self.args.warmup) * (1 - progress)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.args.lr * share
        at = self.state["row"]
        rng = np.random.default_rng([self.args.seed, self.state["epoch"], at])
        batch = mask_rows(rows[at : at + self.args.rows], self.args.masked, rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = masked_loss(self.model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        before, now = self.state["loss"], loss.item()
        self.state["loss"] = now if before is None else 0.99 * before + 0.01 * now
        self.state["row"] = at + self.args.rows
        self.state["step"] += 1

    def _print(self) -> None:
        s, seen = self.state, self.subwords_seen()
        print(
            f"{s['spent_s'] / 60:6.1f} of {self.args.minutes:g} min  step {s['step']:6d}  epoch {s['epoch']:3d}  "
            f"loss {s['loss']:.3f}  {seen / 1e6:6.1f} M subwords  {seen / max(s['spent_s'], 1e-9):8.0f}/s",
            flush=True,
        )

    def subwords_seen(self) -> int:
        """Subwords trained on, to the nearest row."""
        return int(self.state["step"] * self.args.rows * ROW)

    def _save(self) -> None:
        tensors = {"model": self.model.state_dict(), "optimizers": [o.state_dict() for o in self.optimizers]}
        temporary = self.checkpoint.with_suffix(".tmp")
        torch.save({**tensors, "state": self.state}, temporary)
        temporary.replace(self.checkpoint)

    def _load(self) -> None:
        saved = torch.load(self.checkpoint, weights_only=True)
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.state = saved["state"]
        print(f"resuming from {self.checkpoint}, step {self.state['step']}", flush=True)


def save_encoder(run: Pretraining, tokenizer: Tokenizer, folder: Path) -> None:
    """The encoder without its masked-language head, and the tokenizer; fine-tuning gets the usual dropout of 0.1."""
    encoder = run.model.distilbert
    encoder.config.dropout = encoder.config.attention_dropout = 0.1
    encoder.save_pretrained(folder)
    names = {"unk_token": UNK, "pad_token": PAD, "cls_token": CLS, "sep_token": SEP, "mask_token": MASK}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=ROW, **{key: SPECIAL[i] for key, i in names.items()}
    ).save_pretrained(folder)
    facts = {
        "steps": run.state["step"], "subwords_seen": run.subwords_seen(), "minutes": run.args.minutes,
        "final_loss": run.state["loss"], "seed": run.args.seed,
        "corpora": {corpus.path.name: corpus.times for corpus, _ in run.encoded},
        "without": [f"{path.parent.name}/{path.name}" for path in run.args.without],
        "lr": run.args.lr, "warmup": run.args.warmup, "masked": run.args.masked, "rows": run.args.rows,
        "dropout": run.args.dropout,
        "torch": torch.__version__,
    }  # fmt: skip
    if run.args.weights is not None:
        with (run.args.weights / WEIGHTS).open("rb") as file:
            facts["from"] = {WEIGHTS: hashlib.file_digest(file, "sha256").hexdigest()}
    (folder / "pretraining.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="FILE:TIMES")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint and of the finished model")
    without = "treebank files whose sentences are excluded"
    parser.add_argument("--without", nargs="+", type=Path, default=[], metavar="FILE", help=without)
    parser.add_argument(
        "--from", dest="weights", type=Path, metavar="MODEL", help="encoder and vocabulary to start from"
    )
    parser.add_argument("--minutes", type=float, default=60, help="CPU time to train, all calls together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--warmup", type=float, default=0.03, help="share of the time over which the rate rises")
    parser.add_argument("--masked", type=float, default=0.2, help="share of subwords to predict")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=1, help="one more adds a tenth to the speed")
    parser.add_argument("--rows", type=int, default=32, help=f"rows of {ROW} subwords a step")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    vocabulary = (args.out if args.weights is None else args.weights) / "tokenizer.json"
    tokenizer, encoded = read_and_encode(args.corpus, vocabulary, args.without)
    run = Pretraining(encoded, args)
    run.run()
    save_encoder(run, tokenizer, args.out / "model")
    print(f"{args.out / 'model'}: {run.state['step']} steps, final loss {run.state['loss']:.3f}")


if __name__ == "__main__":
    main()

"""Study 1 at true size without a download: random weights, random subwords, sentences of real lengths.

The recipe and sizes are read from `configs/`; the lengths are those of a bundled treebank sample. Nothing is
tokenised: the encoded corpora are put where a trial looks for them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from transformers import AutoConfig, AutoModel

from trials.cache.encoding import EncodedCorpus, cached_or_encoded, token_key
from trials.draft import FreezeDraft
from trials.models.family import MODEL_FAMILIES
from trials.models.model_files import revision_of
from trials.spec import DataSpec, FreezeSpec, ModelSpec, TrialSpec
from trials.starter import treebank_path
from trials.tasks.task import IGNORE, Example, Split

CONFIGS = Path(__file__).parents[3] / "configs"
SUBWORDS_A_WORD = (0.8, 0.13, 0.07)  # shares of words of 1, 2 and 3 subwords
TREEBANK, SAMPLE = "ewt", "UD_English-EWT-sample"
N_TAGS, FIRST_ID = 17, 5  # ids below are those of special tokens
VOCABULARY = 119_547  # of distilbert-base-multilingual-cased; the rest is as `AutoConfig` has it
LAYERS = {"distilbert": 6, "roberta": 12}
TINY = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 200}


@dataclass(frozen=True)
class Workload:
    """The trials to measure.

    Attributes:
        folder: Where random models are written.
        tiny: Whether models and corpora are tiny, for a rehearsal on a CPU.
    """

    folder: Path
    tiny: bool

    def study1(self) -> list[TrialSpec]:
        """Five trials of the first treebank: its freezes, one seed."""
        sweep, published = (
            yaml.safe_load((CONFIGS / folder / "emekaeze_pos.yaml").read_text(encoding="utf-8"))
            for folder in ("sweeps", "published")
        )
        recipe = {key: value for key, value in sweep["trial"].items() if key != "model"}
        entries = {"vocab_size": VOCABULARY} | (TINY if self.tiny else {})  # in a rehearsal as deep, but narrow
        model = self.model("distilbert", LAYERS["distilbert"], **entries)
        if self.tiny:
            recipe["optim"] = recipe["optim"] | {"epochs": 2, "batch_size": 8}
            recipe |= {"max_length": 32, "precision": "fp32"}
        details = published["corpora"][TREEBANK]
        sizes = (48, 24, 16) if self.tiny else tuple(size or 0 for size in details["sizes"])
        recipe |= {"task": details["task"], "data": data_spec(TREEBANK, sizes), "model": model, "train_size": sizes[0]}
        found = []
        for freeze in sweep["space"]["freeze"]:
            draft = FreezeDraft.model_validate({"strategy": freeze} if isinstance(freeze, str) else freeze)
            spec = {**recipe, "freeze": draft.resolve(model), "seed": sweep["seeds"][0]}
            found.append(TrialSpec.model_validate(spec))
        return found

    def model(self, family: str, n_layers: int, **entries: Any) -> ModelSpec:
        """A random model in a folder, written once."""
        config = AutoConfig.for_model(family, **{MODEL_FAMILIES[family].layers_key: n_layers, **entries})
        content = json.dumps([family, n_layers, entries], sort_keys=True)
        folder = self.folder / hashlib.sha256(content.encode()).hexdigest()[:16]
        if not folder.exists():
            part = folder.with_suffix(".part")
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                AutoModel.from_config(config).save_pretrained(part)
            (part / "vocab.txt").write_text("[UNK]\n", encoding="utf-8")  # of no use: items are subwords already
            part.replace(folder)
        known = MODEL_FAMILIES[family]
        taken = config.pad_token_id + 1 if known.positions_from_pad else known.first_position
        return ModelSpec(
            name=family,
            path=str(folder),
            revision=revision_of(folder, pickle=False),
            family=family,
            n_layers=n_layers,
            n_positions=config.max_position_embeddings - taken,
        )


def changed(spec: TrialSpec, **changes: Any) -> TrialSpec:
    """A trial with other settings; those of `optim` are merged."""
    optim = spec.optim.model_dump() | changes.pop("optim", {})
    values = {name: getattr(spec, name) for name in TrialSpec.model_fields}
    return TrialSpec.model_validate(values | {"optim": optim} | changes)


def data_spec(name: str, sizes: tuple[int, ...]) -> DataSpec:
    """A synthetic corpus of so many items in train, dev and test."""
    fingerprint = hashlib.sha256(f"{name} {sizes}".encode()).hexdigest()
    files = {split: (f"{name}-{split}",) if n else () for split, n in zip(("train", "dev", "test"), sizes, strict=True)}
    return DataSpec(name=name, **files, format="conllu", fingerprint=fingerprint, sizes=sizes)


def encode(spec: TrialSpec) -> EncodedCorpus:
    """The synthetic corpus of a trial, cached where the trial finds it."""
    key = token_key(spec.task, spec.data, spec.model, spec.max_length, spec.lowercase)
    return cached_or_encoded(key, lambda: _encoded(spec))


def _encoded(spec: TrialSpec) -> EncodedCorpus:
    rng = np.random.default_rng(int(spec.data.fingerprint[:8], 16))
    names = tuple(f"label{i}" for i in range(N_TAGS))
    config = json.loads((Path(spec.model.path) / "config.json").read_text(encoding="utf-8"))
    assert spec.data.sizes is not None
    splits = []
    for split, size in zip(("train", "dev", "test"), spec.data.sizes, strict=True):
        words = rng.choice(_sample_words(split), size).tolist()
        splits.append(Split([_sentence(n, spec.max_length, config["vocab_size"], len(names), rng) for n in words]))
    return EncodedCorpus(names, names, config.get("pad_token_id") or 0, *splits)


@lru_cache
def _sample_words(split: str) -> tuple[int, ...]:
    """Words of the sentences of the bundled sample; those that it numbers with an integer."""
    blocks = (treebank_path(SAMPLE) / f"{split}.conllu").read_text(encoding="utf-8").split("\n\n")
    counts = (sum(line.partition("\t")[0].isdigit() for line in block.splitlines()) for block in blocks)
    return tuple(n for n in counts if n)


def _sentence(n_words: int, max_length: int, vocabulary: int, n_labels: int, rng: np.random.Generator) -> Example:
    sizes = rng.choice([1, 2, 3], n_words, p=SUBWORDS_A_WORD)
    at, gold = 1 + np.cumsum(sizes) - sizes, rng.integers(0, n_labels, n_words)
    length = min(2 + int(sizes.sum()), max_length)
    at = np.where(at < length - 1, at, -1)
    labels = np.full(length, IGNORE)
    labels[at[at > 0]] = gold[at > 0]
    ids = rng.integers(FIRST_ID, vocabulary, length)
    return Example(ids, labels, gold, at, cut=int((at < 0).sum()))


def nothing() -> FreezeSpec:
    """Everything is trained."""
    return FreezeSpec(strategy="none", layers=(), embeddings=False)


def first(depth: int) -> FreezeSpec:
    """The embeddings and the first layers are frozen."""
    return FreezeSpec(strategy="first_k", layers=tuple(range(depth)), embeddings=True)

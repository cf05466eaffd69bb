"""The contract of a trial, first half: what it takes.

A `TrialSpec` holds everything that decides a trial's numbers, and `trial_id` is a digest of exactly that: not names,
paths, resources or where it ran. A spec is built by `trials.draft`, which looks files and words up; here they are only
values.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trials.freeze.strategies import FREEZE_STRATEGIES, LAYERS

SCHEMA_VERSION = 1  # of a trial's meaning: raise it when the same spec would give other numbers

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Frozen(BaseModel):
    """A value: validated when built, never changed, no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FreezeSpec(Frozen):
    """Which parts of the encoder keep their pretrained weights.

    Attributes:
        strategy: A registered strategy, e.g. ``first_k``, or ``layers``.
        layers: Indices of the frozen encoder layers, counted from the embeddings, ascending.
        embeddings: Whether the embedding tables are frozen as well.
    """

    strategy: str
    layers: tuple[int, ...]
    embeddings: bool

    @property
    def depth(self) -> int:
        """How many encoder layers are frozen."""
        return len(self.layers)

    @property
    def is_baseline(self) -> bool:
        """Whether nothing is frozen at all."""
        return not self.layers and not self.embeddings

    @property
    def label(self) -> str:
        """A short name for tables: `none`, `first 2`, `layers 0,3`; `+E` where the embeddings are frozen too."""
        word = self.strategy.removesuffix("_k").removesuffix("_encoder")
        if self.strategy == LAYERS:
            word = f"layers {','.join(map(str, self.layers))}"
        elif self.strategy.endswith("_k"):
            word = f"{word} {self.depth}"
        return word + ("+E" if self.embeddings else "")


class ModelSpec(Frozen):
    """A pretrained encoder in a folder.

    Attributes:
        name: What people call it; no part of the trial's identity.
        path: Folder with `config.json`, weights and tokenizer; no part of the trial's identity.
        revision: SHA-256 over the folder's files that matter.
        family: A registered model family, e.g. ``distilbert``.
        n_layers: Encoder layers.
        n_positions: Longest input in subwords.
    """

    name: str
    path: str
    revision: str
    family: str
    n_layers: Positive
    n_positions: Positive


class DataSpec(Frozen):
    """A corpus in files.

    Attributes:
        name: What people call it; no part of the trial's identity.
        train, dev, test: Files of the splits; no part of the trial's identity. The test split may be absent.
        format: A registered corpus format, e.g. ``conllu``.
        fingerprint: SHA-256 over the splits' bytes.
    """

    name: str
    train: str
    dev: str
    test: str | None
    format: str
    fingerprint: str


class OptimSpec(Frozen):
    """The optimiser: AdamW without decay on biases and LayerNorm, a linear schedule to zero, gradient clipping.

    Attributes:
        lr: Peak learning rate.
        head_lr: Peak learning rate of the head, which starts from random weights; None means `lr`.
        batch_size: Sentences a step.
        epochs: Passes over the train subset.
        weight_decay: Decoupled weight decay.
        warmup: Share of all steps over which the rate rises from zero.
        max_grad_norm: Largest norm of the whole gradient.
    """

    lr: Annotated[float, Field(gt=0)] = 5e-5
    head_lr: Annotated[float, Field(gt=0)] | None = None
    batch_size: Positive = 16
    epochs: Positive = 5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Share = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0


class Recipe(Frozen):
    """What a draft and a spec say in the same words.

    Attributes:
        task: A registered task, e.g. ``pos``.
        seed: Feeds the named streams of `trials.seeding`: subset, init, order, dropout.
        precision: ``fp32``, or ``bf16`` for autocast to bfloat16.
        max_length: Longest input in subwords, specials included; words beyond it count as errors.
        lowercase: Whether word forms are lower-cased before the tokenizer sees them.
        eval_every: Epochs, or a fraction of one, between two evaluations on dev.
        dropout: Dropout of the trainable parts; None means the model's own.
        frozen_dropout: Whether frozen parts keep their dropout while training, as `Trainer` leaves it.
    """

    task: str = "pos"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    optim: OptimSpec = OptimSpec()
    precision: Literal["fp32", "bf16"] = "fp32"
    max_length: Annotated[int, Field(ge=4)] = 128
    lowercase: bool = False
    eval_every: Annotated[float, Field(gt=0, le=1)] = 1.0
    dropout: Share | None = None
    frozen_dropout: bool = True


NOT_IDENTITY = {"data": {"name", "train", "dev", "test"}, "model": {"name", "path"}, "freeze": {"strategy"}}


class TrialSpec(Recipe):
    """Everything that decides one trial's numbers, and where its files are.

    Attributes:
        train_size: Sentences of the nested train subset.
    """

    data: DataSpec
    model: ModelSpec
    freeze: FreezeSpec
    train_size: Positive

    @model_validator(mode="after")
    def _layers_exist(self) -> TrialSpec:
        layers = self.freeze.layers
        if layers and not (min(layers) >= 0 and max(layers) < self.model.n_layers):
            raise ValueError(f"freeze.layers: {list(layers)} is beyond the {self.model.n_layers} layers of the model")
        if list(layers) != sorted(set(layers)):
            raise ValueError(f"freeze.layers: {list(layers)} is not ascending without repeats")
        if self.freeze.strategy != LAYERS:
            rule = FREEZE_STRATEGIES[self.freeze.strategy]
            if frozenset(layers) != rule(self.model.n_layers, len(layers)):
                raise ValueError(f"freeze.layers: {list(layers)} is not what {self.freeze.strategy} freezes")
        return self

    def identity(self) -> dict[str, Any]:
        """What `trial_id` is a digest of. Two strategies that freeze the same layers are the same trial."""
        payload = {"schema_version": SCHEMA_VERSION, **self.model_dump(mode="json", exclude=NOT_IDENTITY)}
        if self.freeze.is_baseline:  # no frozen part, so nothing its dropout could change
            del payload["frozen_dropout"]
        return payload

    @property
    def trial_id(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of `identity`."""
        return _digest(self.identity())

    @property
    def cell_id(self) -> str:
        """The same for all settings but the seed: replicates of one cell share it."""
        return _digest({k: v for k, v in self.identity().items() if k != "seed"})

    @property
    def baseline_id(self) -> str:
        """The cell that differs from this one only in freezing nothing."""
        nothing = FreezeSpec(strategy="none", layers=(), embeddings=False)
        return self.model_copy(update={"freeze": nothing}).cell_id

    @property
    def label(self) -> str:
        """A readable name, for Ray's dashboard and the terminal."""
        freeze = self.freeze.label.replace(" ", "-")
        return f"{self.data.name}_{freeze}_n{self.train_size}_s{self.seed}_{self.trial_id[:6]}"


def _digest(payload: dict[str, Any]) -> str:
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]

"""The input of a trial: a `TrialSpec` holds everything that determines its results.

`trial_id` is a digest of exactly that, without names, paths, resources or the machine. `trials.draft` builds a spec,
looking up files and names; the spec holds only values. Settings that contradict each other, and numbers that no trial
can have, are refused with their reason. Its steps, evaluations and examples are counted here.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from trials.escaping import escape_line
from trials.freeze.strategies import (
    FREEZE_STRATEGIES,
    LAYERS,
    frozen_layers,
    word_at,
)
from trials.plugins.registry import NOT_LOADED

Positive = Annotated[int, Field(gt=0)]
MOST_LAYERS = 10_000  # a stored spec with more layers is not one of ours, and listing them would fill the memory
Scheme = Literal["auto", "iob1", "iob2", "bioes", "io"]  # how span tags are written; `auto` detects and validates it
FEWEST_FOLDS, MOST_FOLDS = 4, 20  # of a cross-validation; seeds of fewer share more than their interval allows for
FROZEN_EMBEDDINGS = "+E"  # the end of a label
Predictions = Literal["auto", "all", "none"]  # which are stored; `auto`: those of tagging tasks, up to a size
Share = Annotated[float, Field(ge=0, lt=1)]
HeldOut = Annotated[float, Field(gt=0, le=0.5)]
Folds = Annotated[int, Field(ge=FEWEST_FOLDS, le=MOST_FOLDS)]
N_SEEDS = 2**32
Seed = Annotated[int, Field(ge=0, lt=N_SEEDS)]
OwnSeed = Annotated[int, Field(ge=0, lt=999)]  # of one source of randomness; three digits of `Seeds.key`
# A name from a folder, hub or store, as every table shows it. Identity does not depend on names.
Shown = Annotated[str, AfterValidator(escape_line)]
# A split's files in order; older plans in a store hold one path, or null if there is no such split.
Files = Annotated[tuple[str, ...], BeforeValidator(lambda v: () if v is None else (v,) if isinstance(v, str) else v)]


class Frozen(BaseModel):
    """A value that is validated when built, immutable, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FreezeSpec(Frozen):
    """Which parts of the encoder keep their pretrained weights.

    Attributes:
        strategy: A registered strategy, e.g. ``first_k``, or ``layers``.
        layers: Indices of the frozen encoder layers, ascending; 0 is next to the embeddings.
        embeddings: Whether the embedding tables are frozen as well.
        rule: Always None: a key that stored specs have.
    """

    strategy: str
    layers: tuple[int, ...]
    embeddings: bool
    rule: None = None

    @property
    def depth(self) -> int:
        """How many encoder layers are frozen."""
        return len(self.layers)

    @property
    def is_baseline(self) -> bool:
        """Whether nothing is frozen at all."""
        return not self.layers and not self.embeddings

    @property
    def extent(self) -> tuple[int, bool]:
        """How much is frozen, to be sorted by: encoder layers, and of equally many the embeddings."""
        return self.depth, self.embeddings

    def holds(self, other: FreezeSpec) -> bool:
        """Whether it freezes all that another does."""
        return {*other.layers} <= {*self.layers} and other.embeddings <= self.embeddings

    def after_thaws(self, n: int) -> FreezeSpec:
        """What is frozen after `n` unfreezing steps: each unfreezes the highest layer, the last the embeddings."""
        if n == 0:
            return self
        layers = self.layers[: max(self.depth - n, 0)]
        return FreezeSpec(strategy=LAYERS, layers=layers, embeddings=self.embeddings and n <= self.depth)

    @property
    def label(self) -> str:
        """A short name for tables: `none`, `first 2`, `layers 0,3`; `+E` where the embeddings are frozen too.

        Of a plug-in that is not loaded: `layers 2,3 by middle_k (plug-in not loaded)`.
        """
        return self.word + (FROZEN_EMBEDDINGS if self.embeddings and not self.is_embeddings_alone else "")

    @property
    def word(self) -> str:
        """The label without the ending for the embeddings."""
        if self.is_embeddings_alone:
            return "embeddings"
        if self.strategy in FREEZE_STRATEGIES:
            return word_at(self.strategy, self.depth)
        return f"{LAYERS} {','.join(map(str, self.layers))}{self.chooser}"

    @property
    def chooser(self) -> str:
        """What chose the layers, as ` by middle_k (plug-in not loaded)`; empty for what this process knows."""
        if self.strategy in (*FREEZE_STRATEGIES, LAYERS):
            return ""
        return f" by {self.strategy} ({NOT_LOADED})"

    @property
    def is_embeddings_alone(self) -> bool:
        """Whether the embedding tables are all that is frozen."""
        return self.embeddings and not self.layers


BASELINE = FreezeSpec(strategy="none", layers=(), embeddings=False)  # nothing is frozen


EMBEDDINGS_ALONE = "{strategy: first_k, depth: 0, embeddings: true}"  # as YAML


class ModelSpec(Frozen):
    """A pretrained encoder in a folder.

    Attributes:
        name: Its name in tables; not part of the trial's identity.
        path: Folder with `config.json`, weights and tokenizer; not part of the trial's identity.
        revision: SHA-256 over the folder's files that matter.
        family: The architecture, as `config.json` calls it, e.g. ``distilbert``.
        n_layers: Encoder layers.
        n_positions: Longest input in subwords.
        pickle: Whether the weights are a pickle, which the person has agreed to run.
        source: Where the folder came from, e.g. ``hub:FacebookAI/roberta-base@<commit>``; not part of the trial's
            identity.
    """

    name: Shown
    path: str
    revision: str
    family: str
    n_layers: Annotated[int, Field(gt=0, le=MOST_LAYERS)]
    n_positions: Positive
    pickle: bool = False
    source: Shown | None = None


class Columns(Frozen):
    """The columns of a file, by name or by position from 0 (-1 is the last); None is the reader's default.

    A file whose columns are all given by position has no header line.

    Attributes:
        text: The text to classify.
        pair: The second text of a pair.
        label: The class, or the number of a regression.
        tokens: The words of a sentence (in a column file, the word of a line).
        tags: One tag per word (in CoNLL-U, `upos` or `xpos`).
        document: In a table, what the row's text or sentence is a part of (an article, a thread); intervals take whole
            documents as the sample. It changes no trial, so it is not part of a trial's identity.
    """

    text: str | int | None = None
    pair: str | int | None = None
    label: str | int | None = None
    tokens: str | int | None = None
    tags: str | int | None = None
    document: str | int | None = None


class First(Frozen):
    """How many items of each split are used, from its beginning.

    Attributes:
        train, dev: So many; None for all.
        test: So many; None for all, 0 for no test split.
    """

    train: Positive | None = None
    dev: Positive | None = None
    test: Annotated[int, Field(ge=0)] | None = None


class DataSpec(Frozen):
    """A corpus in files.

    Attributes:
        name: Its name in tables; not part of the trial's identity.
        train, dev, test: Files of the splits; not part of the trial's identity. The test split may be absent.
        mismatched: Files of a further split that is scored like test, from other sources than the train split (as in
            MNLI); it may be absent.
        format: A registered corpus format, e.g. ``conllu``.
        fingerprint: SHA-256 over the splits' bytes.
        columns: The columns of text, label, tokens and tags.
        scheme: How span tags are written: ``iob1``, ``iob2``, ``bioes``, ``io``, or ``auto`` to detect it.
        label_none: The label of texts that have none, which are left out; ``none`` where each is a class; None for what
            the labels show.
        first: How many items of each split are used; None for all.
        held_out: Share of the train split that serves as dev, where the corpus has no dev split.
        folds: Folds of a cross-validation over the train split, in place of a dev split: one of them is dev.
        fold: Which one, from 0; a trial's seed modulo `folds`, and so no part of its identity.
        source: Where the files came from, e.g. ``ud:UD_English-EWT@2.16``; not part of the trial's identity.
        sizes: Sentences or texts of train, dev and test, with folds those of the first one; not part of the trial's
            identity, as they follow from it.
        documents: How many documents these are of, 0 where the corpus does not say; likewise.
        notes: What was taken of the files that a person may not expect; a sentence each, for a plan. Not stored.
    """

    name: Shown
    train: Files
    dev: Files
    test: Files = ()
    mismatched: Files = ()
    format: str
    fingerprint: str
    columns: Columns = Columns()
    scheme: Scheme = "auto"
    label_none: str | None = None
    first: First | None = None
    held_out: HeldOut | None = None
    folds: Folds | None = None
    fold: Annotated[int, Field(ge=0)] = 0
    source: Shown | None = None
    sizes: tuple[int, int, int] | None = None
    documents: tuple[int, int, int] | None = None
    notes: Annotated[tuple[Shown, ...], Field(exclude=True, repr=False)] = ()

    def content(self) -> dict[str, Any]:
        """What determines the items, as JSON values, for the keys of caches."""
        keys = {"fingerprint", "format", "columns", "scheme", "first"} | ({"held_out"} if self.held_out else set())
        keys |= set() if self.label_none is None else {"label_none"}
        return self.model_dump(mode="json", include=keys | ({"folds", "fold"} if self.folds else set()))

    def for_seed(self, seed: int) -> DataSpec:
        """The corpus with the fold that trials of this seed are scored on; itself where there are no folds."""
        fold = 0 if self.folds is None else seed % self.folds
        return self if fold == self.fold else self.model_copy(update={"fold": fold})


class OptimSpec(Frozen):
    """The optimiser: AdamW without decay on biases and LayerNorm, a schedule, gradient clipping.

    Attributes:
        lr: Peak learning rate.
        head_lr: Peak learning rate of the head, which starts from random weights; None means `lr`.
        batch_size: Sentences or texts per step.
        epochs: Passes over the train subset.
        weight_decay: Decoupled weight decay.
        warmup: Share of all steps during which the learning rate rises from zero.
        max_grad_norm: Norm to which the whole gradient is clipped; None does not clip.
        schedule: The learning rate after the warm-up: ``linear`` decay to zero, or ``constant``.
        layer_decay: Factor of the learning rate from each layer to the one below it, from the head down to the
            embeddings (layer-wise learning-rate decay, as in BEiT); None means one rate for all.
        embedding_updates: Always ``dense``: a key that stored specs have.
    """

    lr: Annotated[float, Field(gt=0)] = 5e-5
    head_lr: Annotated[float, Field(gt=0)] | None = None
    batch_size: Positive = 16
    epochs: Positive = 5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Share = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] | None = 1.0
    schedule: Literal["linear", "constant"] = "linear"
    layer_decay: Annotated[float, Field(gt=0, lt=1)] | None = None
    embedding_updates: Literal["dense"] = "dense"


class LoraSpec(Frozen):
    """Low-rank adapters (Hu et al. 2021), trained in place of the weights of encoder layers.

    Attributes:
        rank: Rank of an adapter.
        alpha: Its output is scaled by `alpha / rank`.
        dropout: Dropout of an adapter's input.
        layers: ``unfrozen`` for the layers that are not frozen, ``all`` for every layer.
        targets: ``attention`` for the query and value projections, as in the paper; ``linear`` for every projection.
    """

    rank: Positive = 8
    alpha: Annotated[float, Field(gt=0)] = 16.0
    dropout: Share = 0.0
    layers: Literal["unfrozen", "all"] = "unfrozen"
    targets: Literal["attention", "linear"] = "attention"

    @property
    def label(self) -> str:
        """A short name for tables: the rank, and the settings that are not the default."""
        other = self.model_dump(exclude_defaults=True, exclude={"rank"}).values()
        return "/".join([f"r{self.rank}", *(f"{value:g}" if isinstance(value, float) else value for value in other)])


class Recipe(Frozen):
    """The settings that a draft and a spec have in common.

    Attributes:
        task: A registered task, e.g. ``pos``.
        seed: Seeds the random streams of `trials.seeding`: subset, initialisation, order and dropout.
        init_seed: Draws the initial head, and that of adapters, instead of `seed`; None means `seed`.
        order_seed: Draws the order of the training data and the dropout instead of `seed`; None means `seed`. Crossed
            with `init_seed` it shows how much each contributes to the variance of scores (Dodge et al. 2020).
        optim: The optimiser.
        precision: ``fp32``; ``bf16`` or ``fp16`` for autocast, the latter with a scaled loss.
        max_length: Longest input in subwords, specials included; words beyond it count as errors.
        lowercase: Whether word forms are lower-cased before tokenization.
        eval_every: Epochs, or a fraction of one, between two evaluations on dev.
        dropout: Dropout of the trainable parts; None means the model's own.
        frozen_dropout: Whether frozen parts have dropout during training, as with `transformers.Trainer`.
        batching: How an epoch is divided into batches: ``random``, as in the papers; or ``length``, similar lengths
            together, which weighs short sentences more and costs up to 1.4 points, for trials of older stores.
        score: The metric that selects the best epoch; None means the task's own, e.g. ``accuracy`` for POS.
        subset_seed: Selects the train subset instead of `seed`, so that it is the same in every trial.
        thaw_every: Gradual unfreezing (Howard & Ruder 2018): every so many epochs the highest frozen layer is unfrozen,
            the embeddings last; None unfreezes nothing.
        lora: Low-rank adapters; None trains the weights themselves.
    """

    task: str = "pos"
    seed: Seed = 0
    init_seed: OwnSeed | None = None
    order_seed: OwnSeed | None = None
    optim: OptimSpec = OptimSpec()
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    max_length: Annotated[int, Field(ge=4)] = 128
    lowercase: bool = False
    eval_every: Annotated[float, Field(gt=0, le=1)] = 1.0
    dropout: Share | None = None
    frozen_dropout: bool = True
    batching: Literal["random", "length"] = "random"
    score: str | None = None
    subset_seed: Seed | None = None
    thaw_every: Positive | None = None
    lora: LoraSpec | None = None


_OWN = 10**10  # above every single seed
_DIGITS = 1000  # of a seed of one source
_SAME = _DIGITS - 1  # in place of one that is the seed itself and too large for three digits


class Seeds(NamedTuple):
    """The seeds of one trial: of its subset, of its initialisation, and of its order and dropout.

    The order and the dropout share a seed, as both differ from step to step of one training; so the three seeds account
    for everything that is random.
    """

    seed: int
    init: int
    order: int

    @classmethod
    def from_settings(cls, seed: int, init: int | None = None, order: int | None = None) -> Seeds:
        """The seeds from the settings of a sweep, where None means `seed`."""
        return cls(seed, seed if init is None else init, seed if order is None else order)

    @property
    def key(self) -> int:
        """One integer for the three, by which trials are paired: below 2**53, and the seed itself where all are equal.

        Otherwise its decimal digits show them: 10000001002 is seed 0, initialisation 1, order 2.
        """
        if self.init == self.order == self.seed:
            return self.seed
        return _OWN + (self.seed * _DIGITS + min(self.init, _SAME)) * _DIGITS + min(self.order, _SAME)

    @classmethod
    def from_key(cls, key: int) -> Seeds:
        """The inverse of `key`."""
        if key < _OWN:
            return cls.from_settings(key)
        rest, order = divmod(key - _OWN, _DIGITS)
        seed, init = divmod(rest, _DIGITS)
        return cls.from_settings(seed, None if init == _SAME else init, None if order == _SAME else order)

    @property
    def settings(self) -> dict[str, int | None]:
        """The settings of a trial with these seeds, None for those that are the seed itself."""
        own = {"init_seed": self.init, "order_seed": self.order}
        return {"seed": self.seed} | {name: None if value == self.seed else value for name, value in own.items()}

    @classmethod
    def label_of(cls, key: int) -> str:
        """The label of a key."""
        return cls.from_key(key).label

    @property
    def label(self) -> str:
        """For tables: the seed, and those of initialisation and order where they differ from it."""
        parts = {"init": self.init, "order": self.order}
        return ", ".join([str(self.seed), *(f"{name} {own}" for name, own in parts.items() if own != self.seed)])


MOST_EPOCHS = 10_000  # the papers have 3 to 200
MOST_EVALUATIONS = 100_000  # each is a pass over dev, and a row in the store that every reader loads
MOST_BATCH = 1 << 20  # sentences; no memory holds the activations of more
MOST_RANK = 1 << 14  # rank of an adapter; the widest encoders have fewer dimensions


def beyond_bounds(recipe: Recipe) -> list[tuple[str, str]]:
    """(setting, reason) of every number that is larger than a trial can have."""
    n_evaluations = math.ceil(min(min(recipe.optim.epochs, 10**18) / recipe.eval_every, 1e18))
    rank = 0 if recipe.lora is None else recipe.lora.rank
    limits = (
        ("optim.epochs", recipe.optim.epochs, MOST_EPOCHS, "epochs"),
        ("optim.batch_size", recipe.optim.batch_size, MOST_BATCH, "sentences in a batch"),
        ("lora.rank", rank, MOST_RANK, "dimensions of an adapter"),
        ("eval_every", n_evaluations, MOST_EVALUATIONS, "evaluations"),
    )
    return [(key, f"{n:,} {what} are more than {most:,}, the most.") for key, n, most, what in limits if n > most]


def conflicts(recipe: Recipe, freeze: FreezeSpec, model: ModelSpec) -> list[tuple[str, str]]:
    """(setting, reason) of every pair of settings that contradict each other."""
    lora, thaws = recipe.lora, recipe.thaw_every is not None
    everything = len(freeze.layers) == model.n_layers
    checks = [
        (thaws and freeze.is_baseline, "thaw_every", "nothing is frozen, so nothing can be unfrozen. Leave it out, or "
         "give it with each freeze as `cases`."),
        (recipe.optim.layer_decay is not None and everything and freeze.embeddings and not thaws, "optim.layer_decay",
         "only the head is trained, so no layer has a learning rate."),
    ]  # fmt: skip
    if lora is not None:
        checks += [
            (lora.layers == "all" and bool(freeze.layers), "lora", "with `layers: all` every layer is trained by its "
             "adapter and none by its weights, so freezing layers has no effect. Use `layers: unfrozen`, or freeze "
             "only the embeddings."),
            (lora.layers == "unfrozen" and everything, "lora",
             "every layer is frozen, so none is left for adapters. Freeze fewer, or use `layers: all`."),
            (thaws, "lora", "adapters are added when a trial starts, which excludes `thaw_every`. Leave one out."),
        ]  # fmt: skip
    return [(key, reason) for applies, key, reason in checks if applies]


SCHEMA_VERSION = 1  # increment it when the same spec would give other results

NOT_IDENTITY: dict[str, dict[str, Any]] = {
    "data": dict.fromkeys(
        ("name", "train", "dev", "test", "mismatched", "source", "sizes", "documents", "notes", "fold"), True
    )
    | {"columns": {"document": True}},
    "model": dict.fromkeys(("name", "path", "source"), True),
    "freeze": {"strategy": True},
}
# Fields that were added after the first release. At these values they change nothing and are left out of the identity,
# so that a trial that was completed before is not run again.
LATER: dict[str, dict[str, Any]] = {
    "": {
        "batching": "random", "score": None, "subset_seed": None, "thaw_every": None, "lora": None, "init_seed": None,
        "order_seed": None,
    },
    "optim": {"schedule": "linear", "layer_decay": None, "embedding_updates": "dense"},
    "data": {"columns": Columns().model_dump(exclude={"document"}), "scheme": "auto", "first": None, "held_out": None,
             "folds": None, "label_none": None},
    "model": {"pickle": False},
    "freeze": {"rule": None},
}  # fmt: skip
SEEDS = frozenset({"seed", "init_seed", "order_seed"})  # what the replicates of a cell differ in


class TrialSpec(Recipe):
    """Everything that determines one trial's results, and where its files are.

    Attributes:
        train_size: Sentences or texts of the nested train subset.
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
        if self.freeze.strategy in FREEZE_STRATEGIES:  # a store may hold trials of a plug-in that is not loaded
            with suppress(ValueError):
                if {*layers} == frozen_layers(self.freeze.strategy, self.model.n_layers, self.freeze.depth):
                    return self
            raise ValueError(f"freeze.layers: {list(layers)} is not what {self.freeze.strategy} freezes")
        return self

    @model_validator(mode="after")
    def _in_its_fold(self) -> TrialSpec:
        object.__setattr__(self, "data", self.data.for_seed(self.seed))
        return self

    @model_validator(mode="after")
    def _makes_sense(self) -> TrialSpec:
        for key, text in conflicts(self, self.freeze, self.model):
            raise ValueError(f"{key}: {text}")
        return self

    def identity(self) -> dict[str, Any]:
        """The content that `trial_id` is a digest of. Strategies that freeze the same layers give the same trial."""
        own = {"init_seed": self.init_seed, "order_seed": self.order_seed}
        given = {
            name: seed for name, seed in own.items() if seed not in (None, self.seed)
        }  # the seed itself is no other
        return self.cell | {"seed": self.seed} | given

    @cached_property
    def cell(self) -> dict[str, Any]:
        """All settings but the seeds: what `cell_id` is a digest of."""
        payload = {"schema_version": SCHEMA_VERSION, **self.model_dump(mode="json", exclude=NOT_IDENTITY)}
        for part, fields in LATER.items():
            values = payload[part] if part else payload
            for name in [name for name, unused in fields.items() if values[name] == unused]:
                del values[name]
        if self.freeze.is_baseline:  # without frozen parts their dropout changes nothing
            del payload["frozen_dropout"]
        if self.always_frozen.embeddings:  # frozen embeddings are never updated
            payload["optim"].pop("embedding_updates", None)
        return {name: value for name, value in payload.items() if name not in SEEDS}

    @cached_property
    def trial_id(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of `identity`."""
        return _digest(self.identity())

    @cached_property
    def cell_id(self) -> str:
        """Digest of all settings but the seeds: the replicates of one cell share it."""
        return _digest(self.cell)

    @cached_property
    def baseline_id(self) -> str:
        """The cell that differs from this one only in that nothing is frozen."""
        return self._with({"freeze": BASELINE, "thaw_every": None}).cell_id

    @cached_property
    def seeds(self) -> Seeds:
        """The seeds of subset, initialisation and order; `seeds.key` pairs the trials of two cells."""
        return Seeds.from_settings(self.seed, self.init_seed, self.order_seed)

    def with_seed(self, seed: int) -> TrialSpec:
        """Another replicate of the cell. The seed must be valid: nothing is validated again."""
        return self._with({"seed": seed})

    def with_seeds(self, seeds: Seeds) -> TrialSpec:
        """Another replicate of the cell, by all of its seeds, which must be valid."""
        return self._with(seeds.settings)

    def with_rate(self, lr: float) -> TrialSpec:
        """The same trial at another learning rate, which must be valid."""
        return self._with({"optim": self.optim.model_copy(update={"lr": lr})})

    def _with(self, settings: Mapping[str, Any]) -> TrialSpec:
        same = {name: getattr(self, name) for name in TrialSpec.model_fields}  # a copy would keep the cached ids
        values = {**same, **settings}
        changed = TrialSpec.model_construct(
            self.model_fields_set, **{**values, "data": values["data"].for_seed(values["seed"])}
        )
        if settings.keys() <= SEEDS:
            changed.__dict__ |= {name: getattr(self, name) for name in ("cell", "cell_id", "baseline_id")}
        return changed

    @property
    def always_frozen(self) -> FreezeSpec:
        """What is frozen during the whole trial: with gradual unfreezing less than what is frozen at first."""
        if self.thaw_every is None:
            return self.freeze
        return self.freeze.after_thaws((self.optim.epochs - 1) // self.thaw_every)

    @property
    def has_frozen_dropout(self) -> bool:
        """Whether the frozen parts have dropout while it trains."""
        return self.frozen_dropout and self.dropout != 0.0 and not self.freeze.is_baseline

    @property
    def label(self) -> str:
        """A readable name, for Ray's dashboard and the terminal; any freeze of all layers is `all`."""
        is_all = self.freeze.depth == self.model.n_layers
        freeze = f"all{FROZEN_EMBEDDINGS * self.freeze.embeddings}" if is_all else self.freeze.label.replace(" ", "-")
        return f"{self.data.name}_{freeze}_n{self.train_size}_s{self.seeds.key}_{self.trial_id[:6]}"


def _digest(payload: dict[str, Any]) -> str:
    canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def steps_an_epoch(spec: TrialSpec) -> int:
    """Optimiser steps of one pass over the train subset; the last batch may be smaller."""
    return math.ceil(spec.train_size / spec.optim.batch_size)


def evaluation_steps(n_steps: int, epochs: int, eval_every: float) -> list[int]:
    """The steps after which dev is evaluated: every `eval_every` epochs, and after the last step."""
    if eval_every * n_steps <= epochs:  # at most one step between two evaluations
        return list(range(1, n_steps + 1))
    n_evaluations = math.ceil(epochs / eval_every - 1e-9)
    stops = {round(k * eval_every * n_steps / epochs) for k in range(1, n_evaluations)}
    return sorted(stop for stop in stops | {n_steps} if 0 < stop <= n_steps)


def examples_seen(spec: TrialSpec, step: int) -> int:
    """Number of train examples up to a step, repeats included."""
    epochs, steps = divmod(step, steps_an_epoch(spec))
    return epochs * spec.train_size + min(steps * spec.optim.batch_size, spec.train_size)

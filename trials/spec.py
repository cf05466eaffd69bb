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
from typing import Any

from pydantic import model_validator

from trials.freeze.strategies import ADAPTIVE, FREEZE_STRATEGIES, frozen_layers
from trials.settings import (
    BASELINE,
    FROZEN_EMBEDDINGS,
    Columns,
    DataSpec,
    FreezeSpec,
    ModelSpec,
    Positive,
    Recipe,
    Seeds,
)

MOST_EPOCHS = 10_000  # the papers have 3 to 200
MOST_EVALUATIONS = 100_000  # each is a pass over dev, and a row in the store that every reader loads
MOST_BATCH = 1 << 20  # sentences; no memory holds the activations of more
MOST_RANK = 1 << 14  # of an adapter; the widest encoders have fewer dimensions


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
             "folds": None},
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
        if (self.freeze.strategy == ADAPTIVE) != (self.freeze.rule is not None):
            raise ValueError(f"freeze.rule: it goes together with `strategy: {ADAPTIVE}`")
        if self.freeze.strategy in FREEZE_STRATEGIES:  # a store may hold trials of a plug-in that is not loaded
            with suppress(ValueError):
                if {*layers} == frozen_layers(self.freeze.strategy, self.model.n_layers, self.freeze.depth):
                    return self
            raise ValueError(f"freeze.layers: {list(layers)} is not what {self.freeze.strategy} freezes")
        return self

    @model_validator(mode="after")
    def _in_its_fold(self) -> TrialSpec:
        object.__setattr__(self, "data", self.data.under_seed(self.seed))
        return self

    @model_validator(mode="after")
    def _makes_sense(self) -> TrialSpec:
        for key, text in conflicts(self, self.freeze, self.model):
            raise ValueError(f"{key}: {text}")
        return self

    def identity(self) -> dict[str, Any]:
        """The content that `trial_id` is a digest of. Strategies that freeze the same layers give the same trial."""
        payload = {"schema_version": SCHEMA_VERSION, **self.model_dump(mode="json", exclude=NOT_IDENTITY)}
        for part, fields in LATER.items():
            values = payload[part] if part else payload
            for name in [name for name, unused in fields.items() if values[name] == unused]:
                del values[name]
        for name in SEEDS - {"seed"}:  # given as the seed itself, it changes nothing
            if payload.get(name) == self.seed:
                del payload[name]
        if self.freeze.is_baseline:  # without frozen parts their dropout changes nothing
            del payload["frozen_dropout"]
        if self.always_frozen.embeddings:  # frozen embeddings are never updated
            payload["optim"].pop("embedding_updates", None)
        return payload

    @cached_property
    def trial_id(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of `identity`."""
        return _digest(self.identity())

    @cached_property
    def cell_id(self) -> str:
        """Digest of all settings but the seeds: the replicates of one cell share it."""
        return _digest({k: v for k, v in self.identity().items() if k not in SEEDS})

    @cached_property
    def baseline_id(self) -> str:
        """The cell that differs from this one only in that nothing is frozen."""
        return self._with({"freeze": BASELINE, "thaw_every": None}).cell_id

    @cached_property
    def seeds(self) -> Seeds:
        """The seeds of subset, initialisation and order; `seeds.key` pairs the trials of two cells."""
        return Seeds.of(self.seed, self.init_seed, self.order_seed)

    def with_seed(self, seed: int) -> TrialSpec:
        """Another replicate of the cell. The seed must be valid: nothing is validated again."""
        return self._with({"seed": seed})

    def with_seeds(self, seeds: Seeds) -> TrialSpec:
        """Another replicate of the cell, by all of its seeds, which must be valid."""
        return self._with(seeds.settings)

    def at_rate(self, lr: float) -> TrialSpec:
        """The same trial at another learning rate, which must be valid."""
        return self._with({"optim": self.optim.model_copy(update={"lr": lr})})

    def _with(self, settings: Mapping[str, Any]) -> TrialSpec:
        same = {name: getattr(self, name) for name in TrialSpec.model_fields}  # a copy would keep the cached ids
        values = {**same, **settings}
        return TrialSpec.model_construct(
            self.model_fields_set, **{**values, "data": values["data"].under_seed(values["seed"])}
        )

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

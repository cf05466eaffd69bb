"""The parts of a published study: how it was done, on what, what its words mean, and what is wrong in it.

`orchestrator.published.study` puts them together with the numbers.
"""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from trials.settings import Frozen, Positive, Share

UNKNOWN: Literal["unknown"] = "unknown"

Unknown = Literal["unknown"]


class Protocol(Frozen):
    """How a study trained; the names and units of `trials.spec`, and what a trial of ours does not know.

    Attributes:
        model: The checkpoint as the study calls it.
        n_layers: Its encoder layers.
        seeds, n_seeds: Which seeds, and how many.
        hardware: What it ran on.
    """

    model: str
    n_layers: Positive | Unknown
    optimizer: str
    lr: float | Unknown
    weight_decay: float | Unknown
    schedule: str
    warmup: Share | Unknown
    batch_size: Positive | Unknown
    epochs: Positive | Unknown
    max_grad_norm: float | Unknown | None
    precision: str
    max_length: Positive | Unknown
    lowercase: bool | Unknown
    eval_every: float | Unknown
    frozen_dropout: bool | Unknown
    batching: str
    seeds: tuple[int, ...] | Unknown
    n_seeds: Positive | Unknown
    hardware: str
    head_lr: float | None = None
    layer_decay: float | None = None
    dropout: float | None = None
    thaw_every: Positive | None = None
    lora: str | None = None


class PublishedCorpus(Frozen):
    """A corpus of a study.

    Attributes:
        version: Its release.
        task: The word of ours for what was learnt.
        sizes: Sentences or texts of train, dev and test; null where the study does not use a split.
        majority: Accuracy on dev of always saying the commonest class.
        lookalikes: Corpora of the same counts (part of a name, lower case), and the splits in which they differ.
    """

    name: str
    version: str
    task: str
    sizes: tuple[int, int, int | None] | Unknown
    majority: Share | None = None
    lookalikes: dict[str, tuple[Literal["train", "dev", "test"], ...]] = {}


class Metric(Frozen):
    """A metric of a study, and what of ours is the same.

    Attributes:
        called: The study's words.
        columns: Ours, a metric of the store or a figure derived from its rows; several where the study leaves open
            which one is meant, none where we have no such figure.
        split: What was scored, for metrics of quality.
        epoch: Which evaluation is reported.
        unit: ``share`` is 0..1.
        to_baseline: Whether it is the difference to the study's own baseline.
    """

    called: str
    columns: tuple[str, ...]
    split: Literal["dev", "test", "unknown"] = "dev"
    epoch: Literal["last", "best", "unknown"] = "last"
    unit: Literal["share", "count", "s", "loss", "rate"] = "share"
    to_baseline: bool = False


class PublishedFreeze(Frozen):
    """What a study froze.

    Attributes:
        label: The study's name for it.
        layers: Indices of the frozen encoder layers.
        depths: Fewest and most layers, where `layers` is unknown.
        embeddings: Whether the embeddings were frozen as well.
    """

    label: str
    strategy: str
    layers: tuple[int, ...] | Unknown
    depths: tuple[int, int] | None = None
    embeddings: bool | Unknown

    @model_validator(mode="after")
    def _depths_stand_for_layers(self) -> PublishedFreeze:
        if (self.layers == UNKNOWN) != (self.depths is not None):
            raise ValueError("`depths: [fewest, most]` and `layers: unknown` go together")
        return self

    @property
    def is_exact(self) -> bool:
        """Whether the study says which parts were frozen."""
        return self.layers != UNKNOWN and self.embeddings != UNKNOWN

    @property
    def is_baseline(self) -> bool:
        """Whether nothing was frozen."""
        return self.layers == () and self.embeddings is False


class Concern(Frozen):
    """Numbers, by where they stand; an empty list is any."""

    groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    freezes: tuple[str, ...] = ()


class Erratum(Frozen):
    """A mistake or an open question of a study.

    Attributes:
        concerns: The numbers it is about; empty where it is about the text alone.
    """

    id: str
    text: str
    concerns: tuple[Concern, ...] = ()


class PublishedClaim(Frozen):
    """A number of the running text."""

    about: str
    value: float | tuple[float, float]
    said: Literal["exactly", "about", "above", "below", "up to", "between"]

"""The parts of a published study: protocol, corpora, metrics, freezes, errata. `study` adds the numbers."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from trials.settings import Frozen, Positive, Share

UNKNOWN: Literal["unknown"] = "unknown"

Unknown = Literal["unknown"]


class Protocol(Frozen):
    """How a study trained, in the names and units of `trials.spec`, with a few more settings.

    Attributes:
        model: Name of the checkpoint in the study.
        n_layers: Number of encoder layers.
        optimizer, schedule, precision, batching: The study's words, compared with a trial's.
        lr: Peak learning rate.
        weight_decay: Of decoupled weight decay.
        warmup: Share of the steps before the peak learning rate.
        batch_size: Sentences or texts per step.
        epochs: Passes over the train split.
        max_grad_norm: The norm to which gradients are clipped; null means that they are not.
        max_length: Subwords of a sentence that are read.
        lowercase: Whether words are lowercased first.
        eval_every: Epochs between evaluations.
        frozen_dropout: Whether frozen layers apply dropout.
        seeds, n_seeds: The seeds, and their number.
        hardware: The device.
        head_lr: Peak learning rate of the head, if it differs.
        layer_decay: Factor of the learning rate from each layer to the one below it.
        dropout: Probability, if it differs from the checkpoint's.
        thaw_every: Epochs after which the next layer is unfrozen.
        lora: The adapters, in words.
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
        name: Its name in the study.
        version: Its release.
        task: Our name of the task.
        sizes: Sentences or texts of train, dev and test; null for an unused split.
        majority: Accuracy on dev of always predicting the most frequent class.
        lookalikes: Corpora of the same counts (part of a name, lower case), and the splits in which they differ.
    """

    name: str
    version: str
    task: str
    sizes: tuple[int, int, int | None] | Unknown
    majority: Share | None = None
    lookalikes: dict[str, tuple[Literal["train", "dev", "test"], ...]] = {}


class Metric(Frozen):
    """A metric of a study, and ours that corresponds to it.

    Attributes:
        called: Its name in the study.
        columns: Ours: a metric of the store or a number derived from its rows; several if the study does not say which
            one it means, none if we have no such metric.
        split: The split that was scored, for quality metrics.
        epoch: The reported evaluation.
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
        label: Its name in the study.
        strategy: Our name of the rule; `layers` stands for a list.
        layers: Indices of the frozen encoder layers.
        depths: Fewest and most layers, if `layers` is unknown.
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
            raise ValueError("`depths: [fewest, most]` is required with `layers: unknown`, and only then")
        return self

    @property
    def is_exact(self) -> bool:
        """Whether the study states which parts were frozen."""
        return self.layers != UNKNOWN and self.embeddings != UNKNOWN

    @property
    def is_baseline(self) -> bool:
        """Whether nothing was frozen."""
        return self.layers == () and self.embeddings is False


class Concern(Frozen):
    """A set of numbers by table, column and freeze.

    Attributes:
        groups: Ids of tables; an empty list matches all, as in the other two.
        columns: Keys of the study's metrics.
        freezes: Keys of its freezes.
    """

    groups: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    freezes: tuple[str, ...] = ()


class Erratum(Frozen):
    """An error or an open question of a study.

    Attributes:
        id: A short name, unique in the file.
        text: What is wrong or unclear, as `compare` prints it.
        concerns: The numbers that it affects; empty if it affects only the text.
    """

    id: str
    text: str
    concerns: tuple[Concern, ...] = ()


class StatedDifference(Frozen):
    """A difference between a study's procedure and ours, whatever the settings.

    Attributes:
        text: The difference, as `compare` prints it.
        concerns: The numbers that it affects.
    """

    text: str
    concerns: tuple[Concern, ...]


class PublishedClaim(Frozen):
    """A number in the running text.

    Attributes:
        about: What the number measures.
        value: The number, or both ends of a range.
        said: How the text qualifies it.
    """

    about: str
    value: float | tuple[float, float]
    said: Literal["exactly", "about", "above", "below", "up to", "between"]

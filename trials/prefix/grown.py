"""The states of layers that a rule has frozen while a trial trains.

Such layers were trained before, so their states are this trial's alone: they are in a folder of its own among those of
the node's bounded cache, named by the trial and a digest of the frozen weights, and are removed when the trial ends. A
resumed trial has the same weights, so it finds those that an interrupted one has left, or computes the same bits again.

Only train and dev have such states. The split that is scored once at the end would be read as often as computed; and it
is scored with the weights of the best epoch, at which fewer layers may have been frozen.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from trials.encoding.encoded_corpus import EncodedCorpus
from trials.models.cut import start_at
from trials.models.load import LoadedModel, family_of
from trials.prefix.builder import StatesBuilder
from trials.prefix.rule import may_grow_to, prefix_key
from trials.prefix.use import Prefix, fill
from trials.settings import FreezeSpec
from trials.spec import TrialSpec
from trials.training.freezing import frozen_modules


@dataclass(frozen=True)
class Growth:
    """What it took to take further layers out of the training.

    Attributes:
        train_s, train_flops: Seconds and operations of the train subset's states.
        paid_s: Seconds that this process spent on them.
        dev_s: Seconds that it spent on those of dev.
    """

    train_s: float
    train_flops: float
    paid_s: float
    dev_s: float


class GrownPrefix:
    """The layers of a trial that are not run any more, at first those of its prefix.

    Attributes:
        data: The corpus with the states that enter the lowest layer that is run.
    """

    def __init__(
        self, spec: TrialSpec, loaded: LoadedModel, prefix: Prefix, subset: Sequence[int], device: torch.device
    ) -> None:
        self._spec, self._loaded, self._subset, self._device = spec, loaded, list(subset), device
        self.depth, self.data = prefix.depth, prefix.data
        self._before: EncodedCorpus = prefix.data
        self._folders: list[Path] = []
        self._restore: list[Callable[[], None]] = []

    def is_worth(self, freeze: FreezeSpec, passes: float) -> bool:
        """Whether to compute the states that leave these layers, if so many passes over the train subset follow."""
        is_deeper = self._spec.freeze.rule is not None and freeze.embeddings and freeze.depth > self.depth
        return is_deeper and may_grow_to(self._spec, freeze.depth, passes)

    def grow(self, freeze: FreezeSpec) -> Growth:
        """Compute the states that leave the embeddings and the lowest layers, which are frozen, and remove these.

        Where the disk is full, nothing is removed: the trial runs the frozen layers at every step.
        """
        depth = freeze.depth
        builder = StatesBuilder(
            self._spec, self._loaded.model, self.data, depth, self._device, cut_at=self.depth, key=self._key(freeze)
        )
        wanted = {"train": self._subset, "dev": range(len(self.data.dev.examples))}
        try:
            built = fill(builder, self.data, wanted)
        except OSError:
            return Growth(0.0, 0.0, 0.0, 0.0)
        finally:
            self._folders += [builder.folder] if builder.folder else []
        train_flops = builder.flops(self._subset)
        self._restore.append(start_at(self._loaded.model, family_of(self._spec.model), depth - self.depth))
        self.depth, self.data = depth, built.data
        return Growth(built.train_s, train_flops, built.paid_s["train"], built.paid_s["dev"])

    def remove(self) -> None:
        """Put the layers of the trial's own states back and delete these; `data` is that of the start again."""
        while self._restore:
            self._restore.pop()()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self.data = self._before

    def _key(self, freeze: FreezeSpec) -> str:
        digest = hashlib.sha256(f"{self._spec.trial_id}/{prefix_key(self._spec, freeze.depth)}".encode())
        for module in frozen_modules(self._loaded.parts, freeze):
            for tensor in (*module.parameters(), *module.buffers()):
                digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:24]

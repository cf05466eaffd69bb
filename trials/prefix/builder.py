"""Compute the states of frozen layers, example by example, into files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trials.cache.node_cache import existing_folder, node_folder
from trials.cache.set_up import SetUpWork, counted
from trials.encoding.encoded_corpus import EncodedCorpus
from trials.hardware.device import autocast
from trials.models.cut import section
from trials.models.load import family_of
from trials.prefix.files import StatesFile
from trials.prefix.rule import prefix_key
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import unit_of
from trials.training.batching import collate
from trials.training.flops import training_flops

GPU_BATCH = 64


class StatesBuilder:
    """Runs the frozen layers over examples, starting from the deepest states that are cached already.

    Attributes:
        folder: Where the states are; None before `files` is called.
    """

    folder: Path | None = None

    def __init__(
        self,
        spec: TrialSpec,
        model: Any,
        data: EncodedCorpus,
        depth: int,
        device: torch.device,
        *,
        cut_at: int = 0,
        key: str | None = None,
    ) -> None:
        """`cut_at`: the model's lowest layer, whose input `data` holds; `key`: of states that are one trial's alone."""
        self._spec, self._data, self._depth, self._device = spec, data, depth, device
        self._cut_at, self._key = cut_at, key
        self._base = getattr(model, model.base_model_prefix)
        self._width: int = model.config.hidden_size
        self._splits = {name: split for name, split in data.splits.items() if split.examples}

    def files(self) -> dict[str, StatesFile]:
        """The files of every split, in a folder that exists. Raises OSError if there is no room for them."""
        lengths = {name: [len(e.ids) for e in split.examples] for name, split in self._splits.items()}
        n_bytes = 4 * self._width * sum(map(sum, lengths.values()))
        folder = node_folder("prefix", self._key or prefix_key(self._spec, self._depth), n_bytes)
        self.folder = folder
        return {name: StatesFile(folder, name, lengths[name], self._width) for name in lengths}

    def flops(self, subset: Sequence[int]) -> float:
        """Operations of the frozen layers for train examples of these indices, each alone and without padding."""
        layers = self._layers(0)
        examples = self._data.train.examples
        like = collate([examples[subset[0]]], 0, self._device)
        of_layers = training_flops(layers, like)
        return sum(of_layers.of([len(examples[i].ids)]) for i in subset)

    def _layers(self, start: int) -> Any:
        """The layers from `start`, but not below those that the model has, up to the depth."""
        first = max(start - self._cut_at, 0)
        return section(self._base, family_of(self._spec.model), first, self._depth - self._cut_at)

    def counted_states(self, name: str, missing: Sequence[int]) -> Iterator[tuple[int, torch.Tensor, float]]:
        """What `states` yields, reported as work of the set-up."""
        what = f"running frozen layers over {self._spec.data.name} {name}"
        return counted(self.states(name, missing), SetUpWork(what, len(missing), unit_of(TASKS[self._spec.task])))

    def states(self, name: str, missing: Sequence[int]) -> Iterator[tuple[int, torch.Tensor, float]]:
        """Yield (index, (subwords, width) states, seconds) for the missing examples of a split.

        The seconds are those from the ids on: if shallower states are used, what those took is included.
        """
        below = self._below(name) if self._key is None else {}
        for start, file in [*below.items(), (0, None)]:
            absent = set(missing if file is None else file.missing(missing))
            here = [i for i in missing if file is None or i not in absent]
            yield from self._run(name, here, start, file)
            missing = [i for i in missing if i in absent] if file is not None else []

    def _below(self, name: str) -> dict[int, StatesFile]:
        """The cached states of a split at shallower depths, the deepest first; none are computed."""
        lengths = [len(e.ids) for e in self._splits[name].examples]
        folders = {k: existing_folder("prefix", prefix_key(self._spec, k)) for k in range(self._depth - 1, 0, -1)}
        return {k: StatesFile(f, name, lengths, self._width) for k, f in folders.items() if f is not None}

    @torch.inference_mode()
    def _run(
        self, name: str, indices: Sequence[int], start: int, file: StatesFile | None
    ) -> Iterator[tuple[int, torch.Tensor, float]]:
        """Run the layers from `start` up to the depth.

        On a CPU one example at a time, so that its states are bit-identical whichever trial computes them. A GPU, where
        no bit-equality is promised, gets batches of similar lengths.
        """
        if not indices:
            return
        layers = self._layers(start)
        examples = self._splits[name].examples
        below_s = np.zeros(len(examples)) if file is None else file.seconds()
        ranked = sorted(indices, key=lambda i: -len(examples[i].ids))
        size = 1 if self._device.type == "cpu" else GPU_BATCH
        for first in range(0, len(ranked), size):
            group = ranked[first : first + size]
            began = time.perf_counter()
            chosen = [examples[i] if file is None else replace(examples[i], states=file.read(i)) for i in group]
            batch = collate(chosen, 0, self._device)  # the padding's states are never read
            with autocast(self._spec.precision, self._device):
                states = layers(**batch.inputs).last_hidden_state.float().cpu()
            a_subword = (time.perf_counter() - began) / sum(len(examples[i].ids) for i in group)
            for row, i in enumerate(group):
                n = len(examples[i].ids)
                yield i, states[row, :n].contiguous(), below_s[i] + a_subword * n

"""Give a trial the cached hidden states that enter its first trained layer.

If the disk is full or a file is gone, the trial runs the whole model: slower, but with the same results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from trials.cache.node_cache import existing_folder, node_folder
from trials.encoding.encoded_corpus import EncodedCorpus
from trials.hardware.device import autocast
from trials.models.cut import section, start_at
from trials.models.load import LoadedModel, family_of
from trials.prefix.files import StatesFile
from trials.prefix.rule import cached_depth, prefix_key
from trials.spec import TrialSpec
from trials.tasks.task import Split
from trials.training.batching import collate
from trials.training.flops import training_flops

GPU_BATCH = 64


@dataclass(frozen=True)
class Prefix:
    """The input of a trial's first trained layer, in place of input ids.

    Attributes:
        depth: Index of the first layer that every batch runs through; 0 if nothing is cached.
        data: The corpus, with the hidden states of the examples that the trial uses.
        train_s: Seconds that computing the states of the train subset takes, whichever trial computed them.
        train_flops: Operations of computing them.
        paid_s: Seconds that this trial itself spent on states, by split.
        restore: Puts the removed layers back into the model.
    """

    depth: int
    data: EncodedCorpus
    train_s: float
    train_flops: float
    paid_s: Mapping[str, float]
    restore: Callable[[], None]


def take_prefix(
    spec: TrialSpec, loaded: LoadedModel, data: EncodedCorpus, subset: Sequence[int], device: torch.device
) -> Prefix:
    """Compute the states of the train subset and the other splits that are not cached yet; remove the layers below."""
    depth, whole = cached_depth(spec), Prefix(0, data, 0.0, 0.0, {}, lambda: None)
    if depth == 0:
        return whole
    wanted = {name: range(len(split.examples)) for name, split in data.splits.items()} | {"train": subset}
    builder = _Builder(spec, loaded.model, data, depth, device)
    try:
        files = builder.files(depth)
        paid = {
            name: file.fill([int(i) for i in wanted[name]], partial(builder.states, name))
            for name, file in files.items()
        }
        train_s = float(files["train"].seconds()[list(subset)].sum())
        splits = {name: _with_states(data.splits[name], file, wanted[name]) for name, file in files.items()}
    except OSError:  # a full disk, too little room, a file that another process evicted
        return whole
    train_flops = builder.flops(subset)  # before the layers are removed
    restore = start_at(loaded.model, family_of(spec.model), depth)
    return Prefix(depth, data.with_splits(splits), train_s, train_flops, paid, restore)


def _with_states(split: Split, file: StatesFile, wanted: Sequence[int]) -> Split:
    examples = list(split.examples)
    for i in wanted:
        examples[i] = replace(examples[i], states=file.read(int(i)))
    return Split(examples)


class _Builder:
    """Runs the frozen layers over examples, starting from the deepest states that are cached already."""

    def __init__(self, spec: TrialSpec, model: Any, data: EncodedCorpus, depth: int, device: torch.device) -> None:
        self._spec, self._data, self._depth, self._device = spec, data, depth, device
        self._base = getattr(model, model.base_model_prefix)
        self._width: int = model.config.hidden_size
        self._splits = {name: split for name, split in data.splits.items() if split.examples}

    def files(self, depth: int) -> dict[str, StatesFile]:
        """The files of every split at a depth, in a folder that exists. Raises OSError if there is no room for them."""
        lengths = {name: [len(e.ids) for e in split.examples] for name, split in self._splits.items()}
        n_bytes = 4 * self._width * sum(map(sum, lengths.values()))
        folder = node_folder("prefix", prefix_key(self._spec, depth), n_bytes)
        return {name: StatesFile(folder, name, lengths[name], self._width) for name in lengths}

    def flops(self, subset: Sequence[int]) -> float:
        """Operations of the frozen layers for train examples of these indices, each alone and without padding."""
        layers = section(self._base, family_of(self._spec.model), 0, self._depth)
        examples = self._data.train.examples
        like = collate(examples[:1], 0, self._device)
        counted = training_flops(layers, like)
        return sum(counted.of([len(examples[i].ids)]) for i in subset)

    def states(self, name: str, missing: Sequence[int]) -> Iterator[tuple[int, torch.Tensor, float]]:
        """Yield (index, (subwords, width) states, seconds) for the missing examples of a split.

        The seconds are those from the ids on: if shallower states are used, what those took is included.
        """
        below = self._below(name)
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
        """Run the layers from `start` up to the cached depth.

        On a CPU one example at a time, so that its states are bit-identical whichever trial computes them. A GPU, where
        no bit-equality is promised, gets batches of similar lengths.
        """
        if not indices:
            return
        layers = section(self._base, family_of(self._spec.model), start, self._depth)
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

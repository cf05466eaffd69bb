"""The states of frozen layers: computed example by example into files, and given to the trials that use them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from trials.cache.encoding import EncodedCorpus
from trials.cache.node_cache import existing_folder, node_folder
from trials.cache.set_up_work import SetUpWork, count_progress
from trials.errors import is_out_of_memory
from trials.hardware.device import autocast, device_name
from trials.models.cut import section, start_at
from trials.models.load import LoadedModel, family_of
from trials.models.padding_free import attending_within
from trials.prefix.files import StatesFile
from trials.prefix.rule import CPU, cached_depth, prefix_key
from trials.spec import TrialSpec
from trials.tasks.task import Example, Split, unit_of
from trials.training.batching import batches_by_length, collate, laid_end_to_end
from trials.training.flops import training_flops
from trials.training.step_rule import GPU_LENGTHS

GPU_BATCH = 64
ROW, SHORT = 512, 128  # subwords: of a row on a CPU, and of the longest example that shares one


def device_key(device: torch.device) -> str:
    """The `device` of a `prefix_key`: each GPU rounds in its own way and takes its own time."""
    return CPU if device.type == "cpu" else device_name(device)


@dataclass(frozen=True)
class Prefix:
    """The input of a trial's first trained layer, in place of input ids.

    Attributes:
        depth: Index of the first layer that every batch runs through; 0 if nothing is cached.
        data: The corpus, with the hidden states of the examples that the trial uses.
        train_s: Seconds that computing the states of the train subset takes, whichever trial computed them.
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
    """Compute the missing states of the train subset and the other splits, and remove the frozen layers from the model.

    If the disk is full or a file is gone, the trial runs the whole model: slower, and with the same results but for
    rounding, as its batches have other numbers of rows.
    """
    depth = cached_depth(spec)
    if depth == 0:
        return Prefix(0, data, 0.0, 0.0, {}, lambda: None)
    wanted = {name: range(len(split.examples)) for name, split in data.splits.items()} | {"train": subset}
    return StatesBuilder(spec, loaded, data, depth, device).take_out(wanted)


class StatesBuilder:
    """Runs the frozen layers over examples, starting from the deepest states that are cached already."""

    def __init__(
        self, spec: TrialSpec, loaded: LoadedModel, data: EncodedCorpus, depth: int, device: torch.device
    ) -> None:
        self._spec, self._data, self._depth, self._device = spec, data, depth, device
        config: Any = loaded.model.config
        self._model, self._base = loaded.model, getattr(loaded.model, str(loaded.model.base_model_prefix))
        self._first_position, self._width = loaded.first_position, int(config.hidden_size)
        self._splits = {name: split for name, split in data.splits.items() if split.examples}

    def files(self) -> dict[str, StatesFile]:
        """The files of every split, in a folder that exists. Raises OSError if there is no room for them."""
        lengths = {name: [len(e.ids) for e in split.examples] for name, split in self._splits.items()}
        # In fp32 whatever the trial's precision, so that nothing is rounded that the whole model would not round.
        n_bytes = 4 * self._width * sum(map(sum, lengths.values()))
        folder = node_folder("prefix", self._key_at(self._depth), n_bytes)
        return {name: StatesFile(folder, name, lengths[name], self._width) for name in lengths}

    def _key_at(self, depth: int) -> str:
        return prefix_key(self._spec, depth, device_key(self._device))

    def flops(self, subset: Sequence[int]) -> float:
        """Floating-point operations of the frozen layers for these train examples, each alone and without padding."""
        layers = self._layers(0)
        examples = self._data.train.examples
        # One example shows which products the layers have; theirs grow with the length in a known way.
        like = collate([examples[subset[0]]], 0, self._device)
        of_layers = training_flops(layers, like)
        return sum(of_layers.of_batch([len(examples[i].ids)]) for i in subset)

    def _layers(self, start: int) -> Any:
        """The layers from `start` up to the depth."""
        return section(self._base, family_of(self._spec.model), start, self._depth)

    def counted_states(self, name: str, missing: Sequence[int]) -> Iterator[tuple[int, torch.Tensor, float]]:
        """What `states` yields, (subwords, width) states, reported as work of the set-up."""
        what = f"running frozen layers over {self._spec.data.name} {name}"
        return count_progress(self.states(name, missing), SetUpWork(what, len(missing), unit_of(self._spec.task)))

    def states(self, name: str, missing: Sequence[int]) -> Iterator[tuple[int, torch.Tensor, float]]:
        """Yield (index, (subwords, width) states, seconds) for the missing examples of a split.

        The seconds are those from the ids on: if shallower states are used, what those took is included.
        """
        for start, file in self._below(name).items():  # each example starts from the deepest states that it has
            absent = set(file.missing_examples(missing))
            yield from self._run(name, [i for i in missing if i not in absent], start, file)
            missing = [i for i in missing if i in absent]
        yield from self._run(name, missing, 0, None)

    def _below(self, name: str) -> dict[int, StatesFile]:
        """The cached states of a split at shallower depths, the deepest first; none are computed."""
        lengths = [len(e.ids) for e in self._splits[name].examples]
        folders = {k: existing_folder("prefix", self._key_at(k)) for k in range(self._depth - 1, 0, -1)}
        return {k: StatesFile(f, name, lengths, self._width) for k, f in folders.items() if f is not None}

    def _run(
        self, name: str, indices: Sequence[int], start: int, file: StatesFile | None
    ) -> Iterator[tuple[int, torch.Tensor, float]]:
        """Run the layers from `start` up to the depth."""
        if not indices:
            return
        layers = self._layers(start)
        examples = self._splits[name].examples
        below_s = np.zeros(len(examples)) if file is None else file.seconds()
        for places in groups_to_run([examples[i] for i in indices], self._device, self._first_position):
            group = [indices[place] for place in places]
            began = time.perf_counter()
            chosen = [examples[i] if file is None else replace(examples[i], states=file.read(i)) for i in group]
            states = run_layers(self._spec, layers, chosen, self._device, self._first_position)
            # Of a row only the whole can be timed. A subword's share is what each trial that reads it will report.
            a_subword = (time.perf_counter() - began) / sum(len(examples[i].ids) for i in group)
            for i, of_one in zip(group, states, strict=True):
                yield i, of_one, below_s[i] + a_subword * len(examples[i].ids)

    def take_out(self, wanted: Mapping[str, Sequence[int]]) -> Prefix:
        """Compute the missing states of the wanted examples of each split, map all of them, and remove the layers from
        the model; where the disk is full, or a file is gone, nothing is removed.
        """
        try:
            files = {name: file for name, file in self.files().items() if name in wanted}
            paid = {
                name: file.fill([int(i) for i in wanted[name]], partial(self.counted_states, name))
                for name, file in files.items()
            }
            train_s = float(files["train"].seconds()[list(wanted["train"])].sum())
            splits = {}
            for name, file in files.items():
                examples = list(self._data.splits[name].examples)
                for i in map(int, wanted[name]):
                    examples[i] = replace(examples[i], states=file.read(i))
                splits[name] = Split(examples, self._data.splits[name].documents)
        except OSError:  # a full disk, too little room, a file that another process evicted
            return Prefix(0, self._data, 0.0, 0.0, {}, lambda: None)
        train_flops = self.flops(wanted["train"])  # before the layers are removed
        restore = start_at(self._model, family_of(self._spec.model), self._depth)
        return Prefix(self._depth, self._data.with_splits(splits), train_s, train_flops, paid, restore)


def groups_to_run(examples: Sequence[Example], device: torch.device, first_position: int | None) -> Iterator[list[int]]:
    """The indices of examples that `run_layers` takes at a time, the longest first."""
    if device.type != "cpu" or first_position is None:
        yield from batches_by_length(examples, GPU_BATCH if device.type != "cpu" else 1)
        return
    row, n_subwords = list[int](), 0
    for (i,) in batches_by_length(examples, 1):
        length = len(examples[i].ids)
        if length > SHORT:
            yield [i]
            continue
        if n_subwords + length > ROW:
            yield row
            row, n_subwords = [], 0
        row.append(i)
        n_subwords += length
    if row:
        yield row


def padded_width(spec: TrialSpec, examples: Sequence[Example], device: torch.device) -> int:
    """The subwords that a group is padded to, whose states are never read: on a GPU one of few, as in training."""
    longest = max(len(example.ids) for example in examples)
    if device.type == "cpu":
        return longest
    return min(-(-longest // GPU_LENGTHS) * GPU_LENGTHS, spec.max_length)


@torch.inference_mode()
def run_layers(
    spec: TrialSpec, layers: Any, examples: Sequence[Example], device: torch.device, first_position: int | None
) -> list[torch.Tensor]:
    """(subwords, width) states of each example of a group; in fp32, on the CPU.

    They have the same bits whichever trial computes them, and whichever examples run beside it. On a CPU the sums
    inside a product depend on its number of rows, but not on what stands in the others: so short examples lie end to
    end in rows of one length, filled up, and long ones run alone, as all do where a model takes no rows. Of a GPU,
    which gets padded batches of similar lengths, as in training, no bit-equality is promised.

    Args:
        first_position: Of the model, if it takes rows (`LoadedModel.first_position`).
    """
    if device.type == "cpu" and first_position is not None and len(examples[0].ids) <= SHORT:
        row = laid_end_to_end([*examples, *_filler(examples)], first_position)
        assert row.spans is not None
        with autocast(spec.precision, device), attending_within(row.spans):
            states = layers(**row.inputs, position_ids=row.spans.positions).last_hidden_state.float()
        return [of_one.contiguous() for of_one in states[0].split(row.spans.lengths)[: len(examples)]]
    try:
        batch = collate(examples, 0, device, at_least=(padded_width(spec, examples, device), 0))
        with autocast(spec.precision, device):
            states = layers(**batch.inputs).last_hidden_state.float().cpu()
    except RuntimeError as error:
        if len(examples) == 1 or not is_out_of_memory(error):
            raise
        states = None
    if states is None:  # outside the handler, whose traceback would hold the memory
        halves = examples[: len(examples) // 2], examples[len(examples) // 2 :]
        return [row for half in halves for row in run_layers(spec, layers, half, device, first_position)]
    return [row[: len(example.ids)].contiguous() for row, example in zip(states, examples, strict=True)]


def _filler(examples: Sequence[Example]) -> Iterator[Example]:
    """Beginnings of the longest example that fill up a row; their states are discarded."""
    missing, longest = ROW - sum(len(example.ids) for example in examples), examples[0]
    while missing > 0:
        n = min(missing, len(longest.ids))
        types = None if longest.types is None else longest.types[:n]
        states = None if longest.states is None else longest.states[:n]
        yield replace(longest, ids=longest.ids[:n], labels=longest.labels[:n], types=types, states=states)
        missing -= n

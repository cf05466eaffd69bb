"""Give a trial the cached hidden states that enter its first trained layer.

If the disk is full or a file is gone, the trial runs the whole model: slower, and with the same
results but for rounding, as a whole batch goes through layers whose states are of single sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from trials.encoding.encoded_corpus import EncodedCorpus
from trials.models.cut import start_at
from trials.models.load import LoadedModel, family_of
from trials.prefix.builder import StatesBuilder
from trials.prefix.files import StatesFile
from trials.prefix.rule import cached_depth
from trials.spec import TrialSpec
from trials.tasks.task import Split


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
    """Compute the states of the train subset and the other splits that are not cached yet; remove the layers below."""
    depth, whole = cached_depth(spec), Prefix(0, data, 0.0, 0.0, {}, lambda: None)
    if depth == 0:
        return whole
    wanted = {name: range(len(split.examples)) for name, split in data.splits.items()} | {"train": subset}
    builder = StatesBuilder(spec, loaded.model, data, depth, device)
    try:
        built = fill(builder, data, wanted)
    except OSError:  # a full disk, too little room, a file that another process evicted
        return whole
    train_flops = builder.flops(subset)  # before the layers are removed
    restore = start_at(loaded.model, family_of(spec.model), depth)
    return Prefix(depth, built.data, built.train_s, train_flops, built.paid_s, restore)


@dataclass(frozen=True)
class FilledStates:
    """States that are in files: the corpus with them, what those of train take, and what was spent on each split."""

    data: EncodedCorpus
    train_s: float
    paid_s: Mapping[str, float]


def fill(builder: StatesBuilder, data: EncodedCorpus, wanted: Mapping[str, Sequence[int]]) -> FilledStates:
    """Compute the states of the wanted examples of each split that are missing, and map all of them. Raises OSError."""
    files = {name: file for name, file in builder.files().items() if name in wanted}
    paid = {
        name: file.fill([int(i) for i in wanted[name]], partial(builder.counted_states, name))
        for name, file in files.items()
    }
    train_s = float(files["train"].seconds()[list(wanted["train"])].sum())
    splits = {name: _with_states(data.splits[name], file, wanted[name]) for name, file in files.items()}
    return FilledStates(data.with_splits(splits), train_s, paid)


def _with_states(split: Split, file: StatesFile, wanted: Sequence[int]) -> Split:
    examples = list(split.examples)
    for i in wanted:
        examples[i] = replace(examples[i], states=file.read(int(i)))
    return Split(examples, split.documents)

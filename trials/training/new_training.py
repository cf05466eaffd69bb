"""The start of a trial: a nested subset of train, a pretrained model with a new head, and its training."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch

from trials.cache.encoding import EncodedCorpus
from trials.hardware.device import autocast
from trials.models.family import StepMode
from trials.models.load import LoadedModel, family_of, load_model
from trials.seeding import GlobalStream, numpy_stream, torch_stream
from trials.spec import TrialSpec, steps_an_epoch
from trials.tasks import TASKS
from trials.tasks.task import Split
from trials.training.batching import batches_of
from trials.training.freeze_course import freeze_parts
from trials.training.loop import Training


def new_model(spec: TrialSpec, n_labels: int, device: torch.device, *, mode: StepMode | None = None) -> LoadedModel:
    """The pretrained model with a new head, its frozen parts frozen, with adapters if the recipe has them.

    `mode`: how its steps will run; by default in rows on a CPU, else padded.
    """
    head, init = TASKS[spec.task].head, torch_stream(spec.seeds.init, "init")
    mode = mode or ("rows" if device.type == "cpu" else "padded")
    loaded = load_model(spec.model, head=head, n_outputs=n_labels, dropout=spec.dropout, init=init, mode=mode)
    freeze_parts(loaded.parts, spec.always_frozen)  # what gradual unfreezing freezes at first is its schedule's
    if spec.lora is not None:
        from trials.models.adapters import add_adapters  # importing peft takes two seconds

        with GlobalStream(spec.seeds.init, "adapters", device).use():
            add_adapters(loaded, family_of(spec.model), spec.lora, spec.freeze)
    loaded.model.to(device)
    return loaded


def new_training(
    spec: TrialSpec,
    loaded: LoadedModel,
    data: EncodedCorpus,
    subset: np.ndarray,
    device: torch.device,
    *,
    mode: StepMode = "padded",
    done: int = 0,
    accumulation: int = 1,
) -> Training:
    """The training on a subset (train_size,) of the train examples; `done` steps precede it in a checkpoint.

    `mode`: the one that the model was loaded for; of a model that takes no rows, batches are padded.
    """
    examples = [data.train.examples[i] for i in subset]
    if loaded.first_position is not None:  # its attention was changed as it was loaded: it takes nothing else
        mode = "rows"
    elif mode == "rows":
        mode = "padded"
    return Training(
        loaded=loaded,
        optim=spec.optim,
        examples=examples,
        batches=islice(batches_of(spec, examples), done, None),  # a resumed trial sees those that it would have seen
        step=done,
        accumulation=accumulation,
        pad_id=data.pad_id,
        device=device,
        precision=autocast(spec.precision, device),
        n_steps=steps_an_epoch(spec) * spec.optim.epochs,
        scaled=spec.precision == "fp16",
        mode=mode,
    )


def train_subset(spec: TrialSpec, train: Split) -> np.ndarray:
    """Indices (train_size,) of the nested train subset; of texts with classes it is stratified by class."""
    seed = spec.seed if spec.subset_seed is None else spec.subset_seed
    task = TASKS[spec.task]
    if task.head == "text" and not task.regression:
        return stratified_subset(train.gold, spec.train_size, seed)
    return nested_subset(len(train.examples), spec.train_size, seed)


def nested_subset(n: int, size: int, seed: int) -> np.ndarray:
    """Indices (size,) of a train subset of `n` sentences; for one seed a smaller subset is a prefix of a larger one."""
    assert 0 < size <= n, f"a subset of {size} of {n}"
    return numpy_stream(seed, "subset").permutation(n)[:size]


def stratified_subset(classes: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Indices (size,) of a nested train subset, stratified by the `classes` (n,) of the examples.

    With m classes, a subset of k examples has between p k - d and p k + d of a class with share p, where d is
    1 - 1 / (2 m - 2): the best possible for nested subsets (Tijdeman 1980, the chairman assignment problem), and with
    two classes the nearest whole number.
    """
    assert 0 < size <= len(classes), f"a subset of {size} of {len(classes)}"
    rng = numpy_stream(seed, "subset")
    members = [iter(rng.permutation(np.flatnonzero(classes == label))) for label in np.unique(classes)]
    shares = np.unique(classes, return_counts=True)[1] / len(classes)
    return np.array([next(members[turn]) for turn in _turns(shares, size)])


def _turns(shares: np.ndarray, size: int) -> Iterator[int]:
    """The class of each successive example: among the classes that are due, the one that can wait least."""
    if len(shares) == 1:
        yield from [0] * size
        return
    slack = 1 - 1 / (2 * len(shares) - 2)
    taken = np.zeros(len(shares))
    for k in range(1, size + 1):
        # Due is a class whose share of k examples is ahead of what it got by more than the slack of all leaves; it can
        # wait until its share is ahead by the slack itself. Earliest deadline first keeps the bound (Tijdeman 1980).
        due = shares * k - taken >= 1 - slack - 1e-9
        wait = np.where(due, (taken + slack) / shares, np.inf)
        turn = int(np.argmin(wait))
        taken[turn] += 1
        yield turn

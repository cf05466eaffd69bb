"""Which examples of train a trial learns from: nested subsets, stratified where examples have classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trials.seeding import numpy_stream
from trials.spec import TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import Split


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

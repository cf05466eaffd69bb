"""What a dev split and so many seeds can decide, and what would decide more."""

from __future__ import annotations

import math

from orchestrator.analysis.decision_plan import DIFFERING, labels_for, resolved_points
from orchestrator.config.quantities import counted
from trials.spec import DataSpec
from trials.tasks import TASKS
from trials.tasks.task import unit_of
from trials.tasks.task_corpus import read_corpus


def dev_note(task: str, data: DataSpec, tolerance: float, n_seeds: int, held_out: float | None = None) -> str | None:
    """What dev and so many seeds cannot decide, if that is the tolerance, in points; what would, and what holding out
    this share of train and dev together would change.
    """
    finest, what = resolved(task, data, n_seeds), unit_of(TASKS[task])
    if finest <= tolerance:
        return None
    if data.folds is not None:
        needed = math.ceil(labels_for(tolerance) * data.folds / (data.folds - 1))
        items = TASKS[task].scored_unit
        return f"{folds_note(task, data)} The tolerance is {tolerance:g}: about {needed:,} {items} in all would do."
    from orchestrator.analysis import prospects  # loads scipy

    corpus = read_corpus(task, data)
    n = len(corpus.dev)
    shown = (
        f"show a freeze that loses nothing to be within about {finest:.2g} points" if finest < 50 else "show nothing"
    )
    needs, takes = prospects.needed(prospects.variances_of(task), tolerance, n, n_seeds), ""
    if needs is not None:
        more = f"{needs.examples:,} {what} with " if needs.examples > n else ""
        takes = f" Within {counted(tolerance, 'point')} takes about {more}{counted(needs.seeds, 'seed')}."
    other = ""
    if held_out is not None:
        m = round(held_out * (len(corpus.train) + n))
        then = prospects.decides_within(prospects.variances_of(task), m, n_seeds)
        other = f" `--held-out {held_out:g}` would make dev {m:,} {what}: within about {then:.2g} points."
    have = f"{n:,} {what} of dev and {counted(n_seeds, 'seed')}"
    return f"{data.name}: {have} {shown}, if losses vary as in FreezeBench.{takes}{other}"


def folds_note(task: str, data: DataSpec) -> str:
    """What the folds of a corpus resolve."""
    corpus = read_corpus(task, data)
    n = TASKS[task].n_scored([*corpus.train, *corpus.dev])
    return (
        f"{data.name}: {data.folds} folds have {n:,} labels. Where two settings label {DIFFERING:.0%} of them "
        f"differently, losses below about {resolved(task, data, 0):.1f} points may be chance, however many seeds: "
        "these share the examples, and only more of them resolve less."
    )


def resolved(task: str, data: DataSpec, n_seeds: int) -> float:
    """The smallest tolerance, in points, that dev and so many seeds can decide (`analysis.prospects`).

    Of folds, the smallest loss that their labels tell from chance, however many seeds there are: K folds of N labels
    vary as a dev split of N (K - 1) / K, the labels that one of them leaves for training, does (`analysis.two_way`:
    s^2 / (K - 1), with s^2 that of N / K labels).
    """
    corpus = read_corpus(task, data)
    if data.folds is not None:
        return resolved_points(TASKS[task].n_scored(corpus.train))
    from orchestrator.analysis.prospects import decides_within, variances_of  # loads scipy

    return decides_within(variances_of(task), len(corpus.dev), n_seeds)

"""What a dev split (or folds) and a number of seeds can decide, and what would decide more."""

from __future__ import annotations

from orchestrator.config.quantities import amount
from trials.spec import DataSpec
from trials.tasks import TASKS
from trials.tasks.task import unit_of
from trials.tasks.task_corpus import read_corpus


def dev_note(task: str, data: DataSpec, tolerance: float, n_seeds: int, held_out: float | None = None) -> str | None:
    """What dev (or folds) and `n_seeds` seeds cannot decide, if it is the tolerance, in points; what could decide it;
    and what holding out another share of train and dev would change.
    """
    finest, what = resolvable_tolerance(task, data, n_seeds), unit_of(TASKS[task])
    if finest <= tolerance:
        return None
    from orchestrator.analysis import prospects  # loads scipy

    n, folds = _examples(task, data), data.folds or 0
    shown = (
        f"show a freeze that loses nothing to be within about {finest:.2g} points" if finest < 50 else "show nothing"
    )
    needs, takes = prospects.needed_data(prospects.variances_of(task), tolerance, n, n_seeds, folds), ""
    if needs is not None:
        more = f"{needs.examples:,} {what} with " if needs.examples > n else ""
        takes = f" Within {amount(tolerance, 'point')} takes about {more}{amount(needs.seeds, 'seed')}."
    other = ""
    if held_out is not None:
        m = round(held_out * (len(read_corpus(task, data).train) + n))
        then = resolvable_tolerance(task, data, n_seeds, held_out=held_out)
        other = f" `--held-out {held_out:g}` would make dev {m:,} {what}: within about {then:.2g} points."
    of = f"in {folds} folds" if folds else "of dev"
    return (
        f"{data.name}: {n:,} {what} {of} and {amount(n_seeds, 'seed')} {shown}, if losses vary as in FreezeBench."
        f"{takes}{other}"
    )


def resolvable_tolerance(
    task: str, data: DataSpec, n_seeds: int, *, held_out: float | None = None, folds: int | None = None
) -> float:
    """The smallest tolerance, in points, that dev (or folds) and these seeds can decide (`analysis.prospects`); with
    another share of train and dev held out, or in other folds, where these are given.
    """
    from orchestrator.analysis.prospects import decidable_tolerance, variances_of  # loads scipy

    n, folds = _examples(task, data), folds or data.folds or 0
    if held_out is not None or (folds and data.folds is None):
        n = round((held_out or 1.0) * (len(read_corpus(task, data).train) + n))
    return decidable_tolerance(variances_of(task), n, n_seeds, folds=folds)


def _examples(task: str, data: DataSpec) -> int:
    """The number of examples of dev, or of all folds together."""
    corpus = read_corpus(task, data)
    return len(corpus.dev) + (0 if data.folds is None else len(corpus.train))

"""What a dev split (or folds) and a number of seeds can decide, and what would decide more."""

from __future__ import annotations

from orchestrator.config.quantities import amount
from trials.spec import DataSpec
from trials.tasks.task import unit_of
from trials.tasks.task_corpus import read_corpus


def dev_note(task: str, data: DataSpec, tolerance: float, n_seeds: int, held_out: float | None = None) -> str | None:
    """What dev (or folds) and these seeds cannot decide, if it is the tolerance, in points; what could; and what it
    would change to hold out another share of train and dev.
    """
    finest, what = resolvable_tolerance(task, data, n_seeds), unit_of(task)
    if finest <= tolerance:
        return None
    from orchestrator.analysis import prospects  # loads scipy

    n, folds = _examples(task, data, None, data.folds or 0), data.folds or 0
    within = f"show a freeze that loses nothing to be within about {finest:.2g} points"
    shown = within if finest < 50 else "show nothing"
    needs, takes = prospects.needed_data(prospects.variances_of(task), tolerance, n, n_seeds, folds), ""
    if needs is not None:
        more = f"{needs.examples:,} {what} with " if needs.examples > n else ""
        takes = f" Within {amount(tolerance, 'point')} takes about {more}{amount(needs.seeds, 'seed')}."
    other = ""
    if held_out is not None:
        m = _examples(task, data, held_out, 0)
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
    """The smallest tolerance, in points, that dev (this share of train and dev, these folds) and these seeds decide."""
    from orchestrator.analysis.prospects import decidable_tolerance, variances_of  # loads scipy

    folds = folds or data.folds or 0
    return decidable_tolerance(variances_of(task), _examples(task, data, held_out, folds), n_seeds, folds=folds)


def _examples(task: str, data: DataSpec, held_out: float | None, folds: int) -> int:
    """The number of examples of dev, of a share of train and dev, or of all folds together."""
    corpus, share = read_corpus(task, data), held_out or bool(folds)
    return round(share * (len(corpus.train) + len(corpus.dev))) if share else len(corpus.dev)

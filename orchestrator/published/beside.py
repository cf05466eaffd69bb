"""The numbers of a study's own tables and figures, each with ours: what `permafrost paper` draws.

Here nothing is left out: a number that must not be compared stands beside ours without a verdict, and the reason is
its note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.analysis.replication import Replication
from orchestrator.published.exhibit import Exhibit
from orchestrator.published.our_results import SeedMean, Setup, Trial, measure
from orchestrator.published.protocol_differences import may_be, protocol_differences, same_model
from orchestrator.published.rules import by_definition, fits, forbidden, forbidden_here, group_of
from orchestrator.published.study import Group, Published, PublishedNumber, Study, metric_of
from orchestrator.published.study_parts import UNKNOWN
from orchestrator.published.verdict import MARGIN, verdict

NO_TRIAL = "no trial of ours"


@dataclass(frozen=True)
class Number:
    """One number in its place.

    Attributes:
        frozen: Label of our freeze that it stands beside; empty without one.
        column: Ours that is shown; a metric that may be either of two has a `Number` each.
        theirs, ours: The two numbers; None where one is not known.
        replication: None unless both numbers exist and there is chance or a count to judge.
        notes: Why there is no number of ours, or why there is no verdict or none of the decided ones.
    """

    group: str
    freeze: str
    frozen: str
    metric: str
    column: str
    at_epoch: int | None
    theirs: PublishedNumber | None
    ours: SeedMean | None
    replication: Replication | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Beside:
    """A table of a study and the trials of ours that it is shown with.

    Attributes:
        setup: None if no trial of ours has its task, corpus and train size.
        others: How many more set-ups of ours have.
    """

    group: Group
    setup: Setup | None
    others: int

    @property
    def trials(self) -> list[Trial]:
        """Ours; empty without any."""
        return self.setup.trials if self.setup else []


def beside(study: Study, exhibit: Exhibit, ours: Sequence[Setup]) -> list[Beside]:
    """Each table of an exhibit with that of our set-ups which is closest to the study's protocol."""
    found = []
    for group in (group_of(study, name) for name in exhibit.groups):
        fitting = [setup for setup in ours if _may_stand_beside(study, group, setup)]
        best = min(fitting, key=lambda setup: _distance(study, group, setup), default=None)
        found.append(Beside(group, best, max(0, len(fitting) - 1)))
    return found


def numbers(study: Study, exhibit: Exhibit, one: Beside, margin: float = MARGIN) -> Iterator[Number]:
    """The numbers of one table of an exhibit, by freeze, our cell, metric, column and epoch."""
    theirs = {(r.freeze, r.metric, r.at_epoch): r for r in study.results_flat() if r.group == one.group.id}
    metrics = exhibit.metrics or tuple(dict.fromkeys(map(metric_of, one.group.columns)))
    for freeze in one.group.rows:
        for cell in _cells(study, freeze, one.setup) or [()]:
            for metric in metrics:
                published = {epoch: r for (f, m, epoch), r in theirs.items() if (f, m) == (freeze, metric)}
                for epoch in _epochs(exhibit, published, cell):
                    result = published.get(epoch) or Published(
                        group=one.group.id, freeze=freeze, metric=metric, at_epoch=epoch, figure=_NOTHING
                    )
                    yield from _number_beside(study, one, result, cell, margin)


_NOTHING = PublishedNumber(low=0, high=0)  # stands for a number that a study drew but did not print


def differences(study: Study, one: Beside) -> list[str]:
    """How the protocol of our trials differs from the study's."""
    if one.setup is None:
        return []
    devices = [trial.row.get("device") or "an unknown device" for trial in one.trials]
    differing, _ = protocol_differences(study.protocol, [one.setup.spec, *(t.spec for t in one.trials)], devices)
    results = [result for result in study.results_flat() if result.group == one.group.id]
    return [*differing, *dict.fromkeys(text for result in results for text in study.differences_of(result))]


def _may_stand_beside(study: Study, group: Group, setup: Setup) -> bool:
    """Whether a set-up has the task, corpus and train size; of an unknown corpus the task, and a frozen setting."""
    corpus = study.corpora.get(group.corpus or "")
    if corpus is None or corpus.sizes != UNKNOWN:
        return fits(study, group, setup)
    frozen = [freeze for freeze in group.rows if not study.freezes[freeze].is_baseline]
    return setup.spec.task == corpus.task and any(_cells(study, freeze, setup) for freeze in frozen)


def _distance(study: Study, group: Group, setup: Setup) -> tuple[bool, bool, int, int]:
    """Language of an unknown corpus (its key is part of our name), model, number of differences, number of trials."""
    differing, _ = protocol_differences(study.protocol, [trial.spec for trial in setup.trials], [])
    return (
        (group.corpus or "") not in setup.spec.data.name.lower(),
        not same_model(study.protocol.model, setup.spec.model.name),
        len(differing),
        -len(setup.trials),
    )


def _cells(study: Study, freeze: str, setup: Setup | None) -> list[tuple[Trial, ...]]:
    cells = setup.cells.values() if setup else ()
    found = [c for c in cells if may_be(study.freezes[freeze], study.protocol.n_layers, c[0].spec)]
    return sorted(found, key=lambda cell: (cell[0].spec.freeze.depth, cell[0].spec.freeze.label))


def _epochs(exhibit: Exhibit, published: dict[int | None, Published], cell: Sequence[Trial]) -> Sequence[int | None]:
    """The epochs of a curve, theirs and ours; otherwise the one value."""
    if exhibit.kind != "epochs":
        return (None,)
    ours = {round(row["epoch"]) for trial in cell for row in trial.epochs if row["epoch"] >= 1}
    return sorted(ours | {epoch for epoch in published if epoch is not None})


def _number_beside(
    study: Study, one: Beside, result: Published, cell: Sequence[Trial], margin: float
) -> Iterator[Number]:
    metric = study.metrics[result.metric]
    theirs = None if result.figure is _NOTHING else result.figure
    for column in metric.columns or ("",):
        found = None
        if cell and column and one.setup is not None:
            found = measure(metric, result.at_epoch, one.setup, cell[0].spec.cell_id, column=column)
        judged, notes = _judged(study, one, result, found, margin) if theirs and found else (None, ())
        yield Number(
            group=one.group.id,
            freeze=result.freeze,
            frozen=cell[0].spec.freeze.label if cell else "",
            metric=result.metric,
            column=column,
            at_epoch=result.at_epoch,
            theirs=theirs,
            ours=found,
            replication=judged,
            notes=notes if cell else (NO_TRIAL,),
        )


def _judged(
    study: Study, one: Beside, result: Published, ours: SeedMean, margin: float
) -> tuple[Replication | None, tuple[str, ...]]:
    """The verdict, or why there is none."""
    assert one.setup is not None
    if by_definition(study, result):
        return None, ()
    here = forbidden_here(study, one.group, result, one.setup)
    reasons = tuple(dict.fromkeys([*forbidden(study, result), *([here] if here else [])]))
    if study.metrics[result.metric].columns == ("train_s",):
        return None, reasons
    if reasons:
        return Replication("cannot tell", None, None, margin, "; ".join(reasons)), reasons
    judged = verdict(study, result, ours, margin)
    return judged, (judged.why,) if judged.verdict == "cannot tell" else ()

"""What `permafrost compare` prints: a table for each published table and set-up of ours, then the refusals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.cells import LEGEND, layer_strip, strip_and_word
from orchestrator.extras.published.comparison import (
    COUNT_MARGIN,
    MARGIN,
    TIME_MARGIN,
    Comparison,
    Line,
    Refusal,
    Side,
    by_definition,
    fits,
    forbidden,
    forbidden_here,
    group_of,
    verdict,
)
from orchestrator.extras.published.our_results import (
    COUNTED,
    SeedMean,
    Setup,
    Trial,
    may_be,
    measure,
    protocol_differences,
    same_model,
)
from orchestrator.extras.published.replication import Replication
from orchestrator.extras.published.study import (
    UNKNOWN,
    Exhibit,
    Group,
    Metric,
    Published,
    PublishedNumber,
    Study,
    metric_of,
)

# The numbers of a study's own tables and figures, each with ours: what `permafrost paper` draws.
#
# Here nothing is left out: a number that must not be compared stands beside ours without a verdict, and the reason is
# its note.

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
    tables = []
    for group in (group_of(study, name) for name in exhibit.groups):
        fitting = [setup for setup in ours if _may_stand_beside(study, group, setup)]
        best = min(fitting, key=lambda setup: _distance(study, group, setup), default=None)
        tables.append(Beside(group, best, max(0, len(fitting) - 1)))
    return tables


def numbers(study: Study, exhibit: Exhibit, table: Beside, margin: float = MARGIN) -> Iterator[Number]:
    """The numbers of one table of an exhibit, by freeze, our cell, metric, column and epoch."""
    theirs = {(r.freeze, r.metric, r.at_epoch): r for r in study.results_flat() if r.group == table.group.id}
    metrics = exhibit.metrics or tuple(dict.fromkeys(map(metric_of, table.group.columns)))
    for freeze in table.group.rows:
        for cell in _cells(study, freeze, table.setup) or [()]:
            for metric in metrics:
                published = {epoch: r for (f, m, epoch), r in theirs.items() if (f, m) == (freeze, metric)}
                for epoch in _epochs(exhibit, published, cell):
                    result = published.get(epoch) or Published(
                        group=table.group.id, freeze=freeze, metric=metric, at_epoch=epoch, figure=_NOTHING
                    )
                    yield from _number_beside(study, table, result, cell, margin)


_NOTHING = PublishedNumber(low=0, high=0)  # stands for a number that a study drew but did not print


def differences(study: Study, table: Beside) -> list[str]:
    """How the protocol of our trials differs from the study's."""
    if table.setup is None:
        return []
    trials = [table.setup.spec, *(trial.spec for trial in table.trials)]
    differing, _ = protocol_differences(study.protocol, trials, table.setup.devices)
    results = [result for result in study.results_flat() if result.group == table.group.id]
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
    fitting = [c for c in cells if may_be(study.freezes[freeze], study.protocol.n_layers, c[0].spec)]
    return sorted(fitting, key=lambda cell: (cell[0].spec.freeze.depth, cell[0].spec.freeze.label))


def _epochs(exhibit: Exhibit, published: dict[int | None, Published], cell: Sequence[Trial]) -> Sequence[int | None]:
    """The epochs of a curve, theirs and ours; otherwise the one value."""
    if exhibit.kind != "epochs":
        return (None,)
    ours = {round(row["epoch"]) for trial in cell for row in trial.epochs if row["epoch"] >= 1}
    return sorted(ours | {epoch for epoch in published if epoch is not None})


def _number_beside(
    study: Study, table: Beside, result: Published, cell: Sequence[Trial], margin: float
) -> Iterator[Number]:
    metric = study.metrics[result.metric]
    theirs = None if result.figure is _NOTHING else result.figure
    for column in metric.columns or ("",):
        ours = None
        if cell and column and table.setup is not None:
            ours = measure(metric, result.at_epoch, table.setup, cell[0].spec.cell_id, column=column)
        judged, notes = _judged(study, table, result, ours, margin) if theirs and ours else (None, ())
        yield Number(
            group=table.group.id,
            freeze=result.freeze,
            frozen=cell[0].spec.freeze.label if cell else "",
            metric=result.metric,
            column=column,
            at_epoch=result.at_epoch,
            theirs=theirs,
            ours=ours,
            replication=judged,
            notes=notes if cell else (NO_TRIAL,),
        )


def _judged(
    study: Study, table: Beside, result: Published, ours: SeedMean, margin: float
) -> tuple[Replication | None, tuple[str, ...]]:
    """The verdict, or why there is none."""
    assert table.setup is not None
    if by_definition(study, result):
        return None, ()
    here = forbidden_here(study, table.group, result, table.setup)
    reasons = tuple(dict.fromkeys([*forbidden(study, result), *([here] if here else [])]))
    if study.metrics[result.metric].columns == ("train_s",):
        return None, reasons
    if reasons:
        return Replication("cannot tell", None, None, margin, "; ".join(reasons)), reasons
    judged = verdict(study, result, ours, table.setup.devices, margin)
    return judged, (judged.why,) if judged.verdict == "cannot tell" else ()


def comparison_tables(comparison: Comparison, study: Study) -> Iterator[RenderableType]:
    """The whole comparison; shares in percent, differences of shares in points."""
    yield Text(comparison.citation)
    if comparison.sides:
        yield _item(f"predicted: {_PREDICTED}")
        of_time = f"time saved, on their device: {_margin(TIME_MARGIN)}"
        allowed = f"{_margin(comparison.margin)} ({of_time}, counts: {100 * COUNT_MARGIN:g} %)"
        yield _item(f"reproduced: all of it is within {allowed} of theirs; not reproduced: all of it is further away")
    for sides in _alike([side for side in comparison.sides if not side.detail]):
        title = Text(f"{sides[0].corpus}, {sides[0].train_size:,} train sentences, {sides[0].model}", style="bold")
        tables = [part for side in sides for part in (Text(f"theirs: {side.source}"), _table(side, study))]
        yield Padding(Stack(title, *tables, *_notes(sides)), (1, 0, 0, 0))
    if any(layer_strip(line.freeze, side.n_layers) for side in comparison.sides for line in side.lines):
        yield Text(LEGEND, style="dim")
    if comparison.refusals:
        refused = [_item(_refused(refusal)) for refusal in comparison.refusals]
        yield Padding(Stack(Text("not compared", style="bold"), *refused), (1, 0, 0, 0))
    hidden = sum(side.detail for side in comparison.sides)
    notes = list(comparison.missing)
    if hidden:
        notes.append(f"{hidden} more table{'s' * (hidden != 1)} repeating these numbers: see --json")
    notes += [f"erratum in the text: {text}" for text in comparison.about_the_text]
    if notes:
        yield Padding(Stack(*map(_item, notes)), (1, 0, 0, 0))


_PREDICTED = "95 % prediction interval for their number under the variance over our n seeds (and theirs, if published)"


def _margin(share: float) -> str:
    return f"{100 * share:g} point{'s' * (share != 0.01)}"


def _alike(sides: list[Side]) -> list[list[Side]]:
    """Tables of one of our set-ups on one corpus, which share their notes."""
    alike: dict[tuple[object, ...], list[Side]] = {}
    for side in sides:
        alike.setdefault((side.corpus, side.train_size, side.model, side.differs, side.silent), []).append(side)
    return list(alike.values())


# Fixed widths, so that tables align within 80 columns.
_NAMES = {"metric": 9, "freeze": 14}
_NUMBERS = {"ours": 7, "n": 2, "predicted": 12, "theirs": 7, "diff.": 8}


def _table(side: Side, study: Study) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name, width in _NAMES.items():
        table.add_column(name, overflow="fold", min_width=width)
    for name, width in _NUMBERS.items():
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    table.add_column("verdict", no_wrap=True, min_width=14)
    before = None
    for line in side.lines:
        label = _metric_label(study.metrics[line.metric], line.metric, line.at_epoch)
        table.add_row(
            Text(label if label != before else ""), Text(strip_and_word(line.freeze, side.n_layers)), *_figures(line)
        )
        before = label
    return table


def _figures(line: Line) -> tuple[str, ...]:
    judged, unit = line.replication, line.unit
    has_interval = not line.counted and judged.low is not None and judged.high is not None
    sign = "+" if line.difference > 0 else ""
    return (
        _number(line.ours.mean, unit),
        "" if line.counted else str(line.ours.n),
        f"{_number(judged.low or 0, unit)}..{_number(judged.high or 0, unit)}" if has_interval else "",
        "..".join(dict.fromkeys(_number(end, unit) for end in (line.theirs.low, line.theirs.high))),
        f"{sign}{_number(line.difference, unit, digits=3)}",
        judged.verdict,
    )


def _number(value: float, unit: str, digits: int = 4) -> str:
    """A share in percent with two decimals; other numbers with that many digits, counts in thousands or millions."""
    if unit == "share":
        return f"{100 * value:.2f}"
    if unit == "count" and abs(value) >= 1e3:
        return f"{value / 1e6:.{digits}g} M" if abs(value) >= 1e6 else f"{value / 1e3:.{digits}g} k"
    return f"{value:.{digits}g}"


def _notes(sides: list[Side]) -> Iterator[RenderableType]:
    """The notes below tables that share their protocol, each sentence once."""
    differs, silent = sides[0].differs, sides[0].silent
    absent = dict.fromkeys(label for side in sides for label in side.absent)
    extra = dict.fromkeys(label for side in sides for label in side.extra)
    errata = dict.fromkeys(text for side in sides for text in side.errata)
    notes = {"protocol differs": differs, "not stated by the study": silent}
    freezes = {"not in our trials": absent, "only in our trials": extra}
    yield from (_item(f"{what}: {'; '.join(phrases)}") for what, phrases in notes.items() if phrases)
    yield from (_item(f"{what}: {', '.join(labels)}") for what, labels in freezes.items() if labels)
    open_ = [line.replication for side in sides for line in side.lines if line.replication.verdict == "cannot tell"]
    yield from (_item(f"cannot tell: {why}") for why in dict.fromkeys(judged.why for judged in open_))
    yield from (_item(f"erratum: {text}") for text in errata)


def _refused(refusal: Refusal) -> str:
    """The reason, the numbers, and ours if several may be meant."""
    tables: dict[str, dict[str, None]] = {}
    for group, metric, _, _ in refusal.theirs:
        tables.setdefault(metric, {})[group] = None
    theirs = "; ".join(f"{metric} of {', '.join(groups)}" for metric, groups in tables.items())
    ours = f" Ours: {'; '.join(refusal.ours)}." if refusal.ours else ""
    return f"{refusal.reason}{f' [{theirs}]' if theirs else ''}.{ours}"


def _item(text: str) -> RenderableType:
    """A note with a hanging indent."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(overflow="fold", ratio=1)
    table.add_row("-", Text(text))
    return table


def _metric_label(metric: Metric, key: str, at_epoch: int | None) -> str:
    """`accuracy dev`, `accuracy @3`, `saved_train`."""
    if at_epoch is not None:
        return f"{key} @{at_epoch}"
    return key if metric.columns[:1] and metric.columns[0] in COUNTED | {"saved_train"} else f"{key} {metric.split}"

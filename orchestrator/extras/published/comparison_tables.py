"""What `permafrost compare` prints: a table for each published table and set-up of ours, then the refusals."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.freeze_names import LEGEND, layer_strip, strip_and_word
from orchestrator.config.quantities import points
from orchestrator.extras.published.comparison import Comparison, Line, Refusal, Side
from orchestrator.extras.published.our_results import COUNTED
from orchestrator.extras.published.study import Metric, Study
from orchestrator.extras.published.verdicts import COUNT_MARGIN, TIME_MARGIN


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
        return points(value)
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

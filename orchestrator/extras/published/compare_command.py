"""Compare a published study with the trials of a store.

permafrost compare --study emekaeze_pos
permafrost compare --store results --study freezing_bert_glue --margin 0.5 --out comparison
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import to_jsonable_python
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.freeze_names import LEGEND, layer_strip, strip_and_word
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, stdout
from orchestrator.config.quantities import counted, points
from orchestrator.extras.published.comparison import (
    COUNT_MARGIN,
    MARGIN,
    TIME_MARGIN,
    Comparison,
    Line,
    Side,
    compare_study,
)
from orchestrator.extras.published.study import STUDIES, Study, load_study
from orchestrator.store import open_store
from trials.errors import ConfigError
from trials.escaping import csv_cell, html

_NEEDED = ("trial_id", "step", "epoch")  # columns of an evaluation other than its metrics


def compare(
    study: Annotated[str, typer.Option("--study", metavar="NAME", help=f"One of {', '.join(STUDIES)}.")],
    store: options.Store = DEFAULT_STORE,
    margin: Annotated[
        float, typer.Option(min=0.01, max=100, help="Largest difference of scores that counts as the same, in points.")
    ] = 100 * MARGIN,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Also write every number as CSV and one figure as HTML."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Judge whether the trials of a store reproduce a published study, or say why they cannot be compared.

    Examples:
        permafrost compare --study emekaeze_pos

        permafrost compare --store results --study freezing_bert_glue --margin 0.5 --out comparison
    """
    with reported():
        published, results = load_study(study), open_store(store)
        epochs = results.epochs()
        columns = {column for metric in published.metrics.values() for column in metric.columns}
        wanted = [name for name in epochs.column_names if name in columns.union(_NEEDED)]
        rows, evaluations = results.trials().to_pylist(), epochs.select(wanted).to_pylist()
        if any(metric.to_baseline for metric in published.metrics.values()):
            sentences = results.sentences()
            rows = [row | {"sentences": sentences.get(row["trial_id"], {})} for row in rows]
        comparison = compare_study(published, rows, evaluations, margin=margin / 100)
        files = _write(comparison, published, out) if out else []
        if as_json:
            found = {"store": str(results.address), **to_jsonable_python(comparison)}
            typer.echo(json.dumps({**found, "published": published.model_dump()}))
            return
        stdout.print_line(published.citation)
        for part in comparison_tables(comparison):
            stdout.print(part)
        for note in notes(comparison, published):
            stdout.print_line(f"- {note}")
        stdout.print_line(f"{counted(comparison.trials, 'trial')} compared, from {results.address}")
        for path in files:
            stdout.print_line(str(path.resolve()))


def comparison_tables(comparison: Comparison) -> Iterator[RenderableType]:
    """Theirs, ours, the interval in which theirs should lie, and what follows: a part for each table of the study.

    Shares are in percent; 80 columns wide.
    """
    for side in comparison.sides:
        if side.detail:
            continue
        yield Text(f"\n{side.corpus}, {side.train_size:,} train sentences, {side.model}", style="bold")
        yield Text(f"theirs: {side.source}")
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        for name, width in (("metric", 12), ("frozen", 14)):
            table.add_column(name, overflow="fold", min_width=width)
        for name, width in (("theirs", 7), ("ours", 7), ("interval", 12)):
            table.add_column(name, justify="right", no_wrap=True, min_width=width)
        table.add_column("note", no_wrap=True, min_width=14)
        before = ""
        for line in side.lines:
            label = line.metric if line.at_epoch is None else f"{line.metric} @{line.at_epoch}"
            table.add_row(
                Text(label if label != before else ""),
                Text(strip_and_word(line.freeze, side.n_layers)),
                _numbers((line.theirs.low, line.theirs.high), line.unit),
                _numbers((line.ours.mean,), line.unit),
                "" if line.counted else _numbers((line.replication.low, line.replication.high), line.unit),
                line.replication.verdict,
            )
            before = label
        yield table
    if any(layer_strip(line.freeze, side.n_layers) for side in comparison.sides for line in side.lines):
        yield Text(LEGEND, style="dim")


def notes(comparison: Comparison, study: Study) -> Iterator[str]:
    """What the words of the tables mean, what else differs, and what is not compared; each sentence once."""
    sides = [side for side in comparison.sides if not side.detail]
    if sides:
        yield "interval: 95 % prediction for their number under the variance over our seeds (and theirs, if published)"
        yield (
            f"reproduced: all of it is within {counted(100 * comparison.margin, 'point')} of theirs (time saved, on "
            f"their device: {100 * TIME_MARGIN:g}; counts: {100 * COUNT_MARGIN:g} %); not reproduced: all is beyond"
        )
    said: list[tuple[str, Sequence[str]]] = [
        ("cannot tell", [line.replication.why])
        for side in sides
        for line in side.lines
        if line.replication.verdict == "cannot tell"
    ]
    for side in sides:
        said += [("protocol differs", side.differs), ("not stated by the study", side.silent)]
        said += [("not in our trials", side.absent)]
    yield from dict.fromkeys(f"{what}: {'; '.join(words)}" for what, words in said if words)
    yield from (f"erratum: {text}" for text in dict.fromkeys(text for side in sides for text in side.errata))
    for reason, what in comparison.refused.items():
        yield f"not compared: {reason}" + (f" [{'; '.join(what)}]" if what else "")
    if hidden := len(comparison.sides) - len(sides):
        yield f"{counted(hidden, 'more table')} repeating these numbers: see --json"
    yield from (f"erratum in the text: {erratum.text}" for erratum in study.errata if not erratum.concerns)


def _numbers(values: Sequence[float | None], unit: str) -> str:
    """`96.40` or `94.00..95.00`: shares in percent, others with four digits, in thousands or millions."""
    return "" if None in values else "..".join(dict.fromkeys(_number(value or 0, unit) for value in values))


def _number(value: float, unit: str) -> str:
    if unit == "share":
        return points(value)
    if unit == "count" and abs(value) >= 1e3:
        return f"{value / 1e6:.4g} M" if abs(value) >= 1e6 else f"{value / 1e3:.4g} k"
    return f"{value:.4g}"


def _write(comparison: Comparison, study: Study, folder: Path) -> list[Path]:
    """Write `numbers.csv`, and `figure.html` if any share is compared; the files.

    Raises:
        ConfigError: the folder cannot be written.
    """
    import plotly.io

    rows = [_row(study, side, line) for side in comparison.sides for line in side.lines]
    files = [folder / "numbers.csv"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with files[0].open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(rows[0] if rows else ["study"])
            writer.writerows([csv_cell(value) for value in row.values()] for row in rows)
        if drawn := figure(comparison, study):
            files.append(folder / "figure.html")
            plotly.io.write_html(drawn, files[1], include_plotlyjs=True, full_html=True, validate=False)
    except OSError as error:
        raise ConfigError(f"--out: {folder} cannot be written ({error.strerror}).") from error
    return files


def _row(study: Study, side: Side, line: Line) -> dict[str, object]:
    """A line of the file: shares in percent."""
    scale, theirs, ours, judged = 100.0 if line.unit == "share" else 1.0, line.theirs, line.ours, line.replication

    def shown(value: float | None) -> float | None:
        return None if value is None else round(scale * value, 4)

    return {
        "study": study.study,
        "table": side.source,
        "corpus": side.corpus,
        "train size": side.train_size,
        "model": side.model,
        "metric": _metric(study, line),
        "unit": "%" if line.unit == "share" else line.unit,
        "frozen": line.freeze,
        "published": shown(theirs.low),
        "published, to": shown(theirs.high if theirs.low != theirs.high else None),
        "ours": shown(ours.mean),
        "95 % from": shown(ours.low),
        "95 % to": shown(ours.high),
        "n": ours.n,
        "ours minus published": shown(line.difference),
        "predicted from": shown(None if line.counted else judged.low),
        "predicted to": shown(None if line.counted else judged.high),
        "verdict": judged.verdict,
        "protocol differences": "; ".join(side.differs),
        "errata": " ".join(side.errata),
    }


def _metric(study: Study, line: Line) -> str:
    return study.metrics[line.metric].called + (f", epoch {line.at_epoch}" if line.at_epoch else "")


def figure(comparison: Comparison, study: Study) -> dict[str, Any] | None:
    """A Plotly figure: a row per published number that is a share, theirs, and ours with the interval for theirs.

    None if no share is compared.
    """
    rows = [(side, line) for side in comparison.sides if not side.detail for line in side.lines if line.unit == "share"]
    if not rows:
        return None
    names = [
        html(f"{side.source}, {_metric(study, line)}, {line.freeze}: {line.replication.verdict}") for side, line in rows
    ]
    lines = [line for _, line in rows]
    at = list(range(len(lines)))
    ends = [(line.replication.low, line.replication.high) for line in lines]
    ours = [round(100 * line.ours.mean, 4) for line in lines]
    below = [0.0 if low is None else mean - 100 * low for mean, (low, _) in zip(ours, ends, strict=True)]
    above = [0.0 if high is None else 100 * high - mean for mean, (_, high) in zip(ours, ends, strict=True)]
    theirs = [round(50 * (line.theirs.low + line.theirs.high), 4) for line in lines]
    ranges = [50 * (line.theirs.high - line.theirs.low) for line in lines]
    dots = {"type": "scatter", "mode": "markers", "y": at, "hovertemplate": "%{x:.2f} %"}
    interval = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    diamonds = {"color": "#c2410c", "symbol": "diamond-open", "size": 11}
    data = [
        {**dots, "name": "ours, with the interval in which theirs should lie", "x": ours, "error_x": interval},
        {**dots, "name": "published", "x": theirs, "error_x": {"type": "data", "array": ranges}, "marker": diamonds},
    ]
    layout = {
        "title": {"text": html(study.citation)}, "height": 26 * len(lines) + 160, "xaxis": {"ticksuffix": " %"},
        "yaxis": {"tickvals": at, "ticktext": names, "range": [len(lines) - 0.5, -0.5], "automargin": True},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"},
    }  # fmt: skip
    return {"data": data, "layout": layout}

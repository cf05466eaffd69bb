"""Compare a published study with the trials of a store.

permafrost compare
permafrost compare --study freezing_bert_glue --margin 0.5 --out glue.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.freeze_names import LEGEND, layer_strip, strip_and_word
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, stdout
from orchestrator.config.quantities import amount, points
from orchestrator.extras.published.comparison import (
    COUNT_MARGIN,
    MARGIN,
    TIME_MARGIN,
    Comparison,
    Line,
    compare_study,
)
from orchestrator.extras.published.study import STUDIES, Study, load_study
from orchestrator.store import open_store
from trials.errors import ConfigError
from trials.escaping import html

_NOTHING = 5  # exit code: nothing matched
_MAIN_REASONS = 2  # that fit a line


def compare(
    study: Annotated[
        str | None,
        typer.Option("--study", metavar="NAME", help=f"One of {', '.join(STUDIES)}.", show_default="list the studies"),
    ] = None,
    store: options.Store = DEFAULT_STORE,
    margin: Annotated[
        float, typer.Option(min=0.01, max=100, help="Largest difference of scores that counts as the same, in points.")
    ] = 100 * MARGIN,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Also draw the compared shares, as HTML.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Judge whether the trials of a store reproduce a published study, or say why they cannot be compared.

    Examples:
        permafrost compare

        permafrost compare --study emekaeze_pos

        permafrost compare --study freezing_bert_glue --margin 0.5 --out glue.html

    Exit codes: 0 compared or listed, 2 unknown study, 3 no store, 5 no number can be compared.
    """
    with errors_as_exit_codes():
        if study is None:
            _list_studies(as_json=as_json)
            return
        published, results = load_study(study), open_store(store)
        epochs = results.epochs()
        wanted = {"trial_id", "step", "epoch"}.union(*(metric.columns for metric in published.metrics.values()))
        evaluations = epochs.select(sorted(wanted & set(epochs.column_names))).to_pylist()
        comparison = compare_study(published, results.trials().to_pylist(), evaluations, margin=margin / 100)
        rows = table_rows(comparison, published)
        if to is not None and (drawn := figure(rows, published.citation)):
            _write(drawn, to)
        if as_json:
            why_not = {reason: [*what] for reason, what in comparison.refused.items()}
            head = {"study": study, "store": results.address, "trials": comparison.trials, "margin": margin}
            typer.echo(json.dumps({**head, "numbers": rows, "not_compared": why_not}))
        else:
            if not rows:
                reasons = sorted(comparison.refused, key=lambda reason: _rank(reason, comparison.refused[reason]))
                stdout.print_line(f"no number of {study} can be compared: {'; '.join(reasons[:_MAIN_REASONS])}")
            stdout.print_line(published.citation)
            for part in comparison_tables(comparison):
                stdout.print(part)
            for note in notes(comparison, published):
                stdout.print_line(f"- {note}")
            stdout.print_line(f"{amount(comparison.trials, 'trial')} compared, from {results.address}")
        if not rows:
            raise typer.Exit(_NOTHING)


def _rank(reason: str, what: Mapping[str, None]) -> tuple[bool, bool, int]:
    """Sort key of reasons: first how our trials differ, then which trials are missing, then what bars most numbers."""
    return bool(what), "we have no trial" not in reason, -len(what)


def _list_studies(*, as_json: bool) -> None:
    studies = {name: load_study(name).citation for name in STUDIES}
    if as_json:
        typer.echo(json.dumps(studies))
        return
    for name, citation in studies.items():
        stdout.print_line(f"{name}: {citation}")
    stdout.print_line("`permafrost plan NAME` shows what a study runs, `permafrost compare --study NAME` compares it.")


def comparison_tables(comparison: Comparison) -> Iterator[RenderableType]:
    """Theirs, ours, the interval in which theirs should lie, and what follows: a part for each table of the study.

    Shares are in percent; 80 columns wide.
    """
    for _, group in groupby(comparison.lines, lambda line: (line.table, line.model, line.notes)):
        first, *_ = lines = [*group]
        yield Text(f"\n{first.corpus}, {first.train_size:,} train sentences, {first.model}", style="bold")
        yield Text(f"theirs: {first.source}")
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        for column, width in (("metric", 12), ("frozen", 14)):
            table.add_column(column, overflow="fold", min_width=width)
        for column, width in (("theirs", 7), ("ours", 7), ("interval", 12)):
            table.add_column(column, justify="right", no_wrap=True, min_width=width)
        table.add_column("note", no_wrap=True, min_width=14)
        before = ""
        for line in lines:
            table.add_row(
                Text(line.metric.replace("@", " @") if line.metric != before else ""),
                Text(strip_and_word(line.freeze, line.n_layers)),
                _range(line, line.theirs.low, line.theirs.high),
                _range(line, line.ours.mean),
                _range(line, line.replication.low, line.replication.high),
                line.replication.verdict,
            )
            before = line.metric
        yield table
    if any(layer_strip(line.freeze, line.n_layers) for line in comparison.lines):
        yield Text(LEGEND, style="dim")


def notes(comparison: Comparison, study: Study) -> Iterator[str]:
    """Notes on the words of the tables, on further differences, and on what is not compared; each sentence once."""
    if comparison.lines:
        yield "interval: 95 % prediction for their number under the variance over our seeds (and theirs, if published)"
        yield (
            f"reproduced: all of it is within {amount(100 * comparison.margin, 'point')} of theirs (time saved, on "
            f"their device: {100 * TIME_MARGIN:g}; counts: {100 * COUNT_MARGIN:g} %); not reproduced: all is beyond"
        )
    judged = [line.replication for line in comparison.lines]
    sentences = [f"cannot tell: {one.why}" for one in judged if one.verdict == "cannot tell"]
    sentences += [note for line in comparison.lines for note in line.notes]
    sentences += [f"erratum: {text}" for line in comparison.lines for text in line.errata]
    for reason, what in comparison.refused.items():
        sentences.append(f"not compared: {reason}" + (f" [{'; '.join(what)}]" if what else ""))
    sentences += [f"erratum in the text: {erratum.text}" for erratum in study.errata if erratum.is_of_text]
    yield from dict.fromkeys(sentences)


def _range(line: Line, *ends: float | None) -> str:
    """`96.40` or `94.00..95.00`: shares in percent, counts with four digits, in thousands or millions."""
    return "" if None in ends else "..".join(dict.fromkeys(_number(line, end or 0) for end in ends))


def _number(line: Line, value: float) -> str:
    if not line.is_count:
        return points(value)
    if abs(value) >= 1e3:
        return f"{value / 1e6:.4g} M" if abs(value) >= 1e6 else f"{value / 1e3:.4g} k"
    return f"{value:.4g}"


def table_rows(comparison: Comparison, study: Study) -> list[dict[str, Any]]:
    """A row per published number, as JSON has it: shares in percent."""
    rows = []
    for line in comparison.lines:
        metric, _, epoch = line.metric.partition("@")
        numbers = {
            "published": line.theirs.low,
            "published, to": line.theirs.high if line.theirs.low != line.theirs.high else None,
            "ours": line.ours.mean,
            "predicted from": line.replication.low,
            "predicted to": line.replication.high,
        }
        scale = 1 if line.is_count else 100
        called = study.metrics[metric].called + (f", epoch {epoch}" if epoch else "")
        rows.append(
            {"table": line.source, "corpus": line.corpus, "train size": line.train_size, "model": line.model}
            | {"metric": called, "unit": "count" if line.is_count else "%", "frozen": line.freeze.label}
            | {name: None if value is None else round(scale * value, 4) for name, value in numbers.items()}
            | {"n": line.ours.n, "verdict": line.replication.verdict, "note": line.replication.why}
            | {"differences": "; ".join(line.notes), "errata": " ".join(line.errata)}
        )
    return rows


def _write(drawn: dict[str, Any], path: Path) -> None:
    """Write a figure as HTML. Raises ConfigError: the file cannot be written."""
    import plotly.io

    try:
        plotly.io.write_html(drawn, path, include_plotlyjs=True, full_html=True, validate=False)
    except OSError as error:
        raise ConfigError(f"--out: {path} cannot be written ({error.strerror}).") from error


def figure(rows: Sequence[dict[str, Any]], title: str) -> dict[str, Any] | None:
    """A Plotly figure: a row per published number that is a share, theirs, and ours with the interval for theirs.

    None if no share is compared. `rows` are those of `table_rows`.
    """
    rows = [row for row in rows if row["unit"] == "%"]
    if not rows:
        return None
    places = list(range(len(rows)))
    names = [html(f"{row['table']}, {row['metric']}, {row['frozen']}: {row['verdict']}") for row in rows]
    ends = [(row["published"], row["published, to"] or row["published"]) for row in rows]
    ours = [row["ours"] for row in rows]
    above = [0.0 if row["predicted to"] is None else row["predicted to"] - row["ours"] for row in rows]
    below = [0.0 if row["predicted from"] is None else row["ours"] - row["predicted from"] for row in rows]
    dots = {"type": "scatter", "mode": "markers", "y": places, "hovertemplate": "%{x:.2f} %"}
    interval = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    ranges = {"type": "data", "array": [(high - low) / 2 for low, high in ends]}
    theirs = {"x": [(low + high) / 2 for low, high in ends], "error_x": ranges}
    diamonds = {"color": "#c2410c", "symbol": "diamond-open", "size": 11}
    data = [
        {**dots, "name": "ours, with the interval in which theirs should lie", "x": ours, "error_x": interval},
        {**dots, "name": "published", **theirs, "marker": diamonds},
    ]
    layout = {
        "title": {"text": html(title)}, "height": 26 * len(rows) + 160, "xaxis": {"ticksuffix": " %"},
        "yaxis": {"tickvals": places, "ticktext": names, "range": [len(rows) - 0.5, -0.5], "automargin": True},
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"},
    }  # fmt: skip
    return {"data": data, "layout": layout}

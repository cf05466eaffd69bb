"""A comparison as files: every compared number as CSV, and one figure with theirs beside ours as HTML."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from orchestrator.extras.published.comparison import Comparison, Line, Side
from orchestrator.extras.published.study import Study
from trials.errors import ConfigError
from trials.escaping import csv_cell, html

OURS, THEIRS = "#0b6fa4", "#c2410c"
_ROW, _HEAD, _FOOT = 26, 40, 46  # pixels
_LABELS = 0.34  # of the width


def write_comparison(comparison: Comparison, study: Study, folder: Path) -> list[Path]:
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
    """A Plotly figure: a panel per published table and set-up of ours, a row per number that is a share.

    Diamonds are theirs, a line where they give a range; dots are ours with the interval in which theirs should lie.
    None if no share is compared.
    """
    panels = [
        (side, lines)
        for side in comparison.sides
        if not side.detail and (lines := [line for line in side.lines if line.unit == "share"])
    ]
    if not panels:
        return None
    height = sum(_HEAD + _FOOT + _ROW * len(lines) for _, lines in panels)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "title": {"text": html(comparison.citation)}, "height": height + 120, "annotations": [],
        "margin": {"l": 10, "r": 20, "t": 80, "b": 10}, "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"},
    }  # fmt: skip
    top = 0
    for n, (side, lines) in enumerate(panels):
        at = "" if n == 0 else str(n + 1)
        bottom = top + _HEAD + _ROW * len(lines)
        names = [f"{html(_metric(study, line))}, {html(line.freeze)}: {line.replication.verdict}" for line in lines]
        rows = list(range(len(lines)))
        layout[f"xaxis{at}"] = {"domain": [_LABELS, 1], "anchor": f"y{at}", "ticksuffix": " %", "zeroline": False}
        layout[f"yaxis{at}"] = {
            "domain": [1 - bottom / height, 1 - (top + _HEAD) / height], "anchor": f"x{at}", "tickvals": rows,
            "ticktext": names, "range": [len(lines) - 0.5, -0.5], "showgrid": True, "zeroline": False,
        }  # fmt: skip
        title = f"{html(side.source)}: {html(side.corpus)}, {side.train_size:,} for training, {html(side.model)}"
        layout["annotations"].append(
            {"text": f"<b>{title}</b>", "x": 0, "y": 1 - (top + _HEAD / 2) / height, "xref": "paper", "yref": "paper",
             "xanchor": "left", "showarrow": False}
        )  # fmt: skip
        data += [trace | {"xaxis": f"x{at}", "yaxis": f"y{at}", "showlegend": n == 0} for trace in _traces(lines)]
        top = bottom + _FOOT
    return {"data": data, "layout": layout}


def _traces(lines: list[Line]) -> list[dict[str, Any]]:
    rows = list(range(len(lines)))
    theirs = [round(50 * (line.theirs.low + line.theirs.high), 4) for line in lines]
    ranges = [50 * (line.theirs.high - line.theirs.low) for line in lines]
    ours = [round(100 * line.ours.mean, 4) for line in lines]
    ends = [(line.replication.low, line.replication.high) for line in lines]
    below = [mean - 100 * low if low is not None else 0.0 for mean, (low, _) in zip(ours, ends, strict=True)]
    above = [100 * high - mean if high is not None else 0.0 for mean, (_, high) in zip(ours, ends, strict=True)]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "y": rows,
        "hovertemplate": "%{x:.2f} %<extra>%{fullData.name}</extra>",
    }
    return [
        {**dots, "name": "ours, with the interval in which theirs should lie", "x": ours, "marker": {"color": OURS},
         "error_x": {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": OURS}},
        {**dots, "name": "published", "x": theirs, "error_x": {"type": "data", "array": ranges, "color": THEIRS},
         "marker": {"color": THEIRS, "symbol": "diamond-open", "size": 11}},
    ]  # fmt: skip

"""Published numbers next to ours: hollow diamonds in figures, and a table of the differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboards.views.drawing import freeze_column, interval_bars, name, numbers
from dashboards.views.overlay import NOTHING as NOTHING
from dashboards.views.overlay import Overlay as Overlay
from dashboards.views.overlay import overlay as overlay
from dashboards.views.part import Part
from dashboards.views.theme import Look
from orchestrator.config.quantities import counted

_FIGURES = (
    "theirs_low",
    "theirs_high",
    "ours",
    "ours_low",
    "ours_high",
    "difference",
    "predicted_low",
    "predicted_high",
)


def published_traces(found: Overlay, at: Mapping[str, float], look: Look) -> list[dict[str, Any]]:
    """One trace of hollow diamonds per study, at the places of the cells, in percent."""
    points = found.points[found.points["cell"].isin(list(at))]
    return [_diamonds(str(study), rows, at, look) for study, rows in points.groupby("study", sort=False)]


def _diamonds(study: str, rows: pd.DataFrame, at: Mapping[str, float], look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"published: {name(study)}",
        "x": [at[cell] for cell in rows["cell"]],
        "y": numbers(rows["value"], 100),
        "error_y": interval_bars(rows.rename(columns={"value": "mean"}), look.muted, scale=100),
        "marker": {"symbol": "diamond-open", "size": 13, "color": look.text, "line": {"width": 2, "color": look.text}},
        "customdata": [[name(citation, 90)] for citation in rows["citation"]],
        "hovertemplate": "%{y:.2f} %<br>%{customdata[0]}<br>published number (protocols may differ)<extra></extra>",
    }


def why_no_published(info: Overlay) -> str:
    """Why no published number can be compared; empty if one can."""
    if len(info.lines):
        return ""
    return " ".join(info.refusals) or "Published studies are switched off (study: off)."


def published_table(info: Overlay) -> pd.DataFrame:
    """One row per comparable number, shares in percent."""
    lines = info.lines
    scale = lines["unit"].map({"share": 100.0}).astype("float64").fillna(1.0)
    scaled = {key: (scale * lines[key].astype("float64")).round(4) for key in _FIGURES}
    return pd.DataFrame(
        {
            "study": lines["study"],
            "table": lines["source"],
            "metric": lines["metric"],
            "unit": lines["unit"].map(lambda unit: {"share": "%"}.get(unit, unit)),
            "frozen": freeze_column(lines["freeze"], lines["n_layers"]),
            "published": scaled["theirs_low"],
            "published, to": scaled["theirs_high"].where(lines["theirs_low"] != lines["theirs_high"]),
            "ours": scaled["ours"],
            "95 % from": scaled["ours_low"],
            "95 % to": scaled["ours_high"],
            "n": lines["n"],
            "ours minus published": scaled["difference"],
            "predicted from": scaled["predicted_low"],
            "predicted to": scaled["predicted_high"],
            "verdict": lines["verdict"],
            "protocol differences": lines["differs"],
            "errata": lines["errata"],
        }
    )


def left_out(info: Overlay) -> str:
    """`38 of 52 published numbers do not fit: why`; empty if all do."""
    out = info.n_numbers - info.n_fit
    reasons = " ".join(info.refusals) or "no trial of ours has the same corpus, train size and freeze."
    return f"{out} of {counted(info.n_numbers, 'published number')} do not fit: {reasons}" if out else ""


def published_columns(found: Overlay, cells: pd.Series) -> dict[str, pd.Series]:
    """One column per study that has comparable numbers, in the order of `cells`."""
    return {
        f"published: {study} (%)": cells.map((100 * rows.set_index("cell")["value"]).round(4)).astype("float64")
        for study, rows in found.points.groupby("study", sort=False)
    }


PUBLISHED = Part(
    "published-table",
    "Replication of published results",
    "Our results beside published ones of the same metric, split, corpus and train size, with a verdict.",
    overlay,
    published_table,
    why_empty=why_no_published,
    method="Our side is the mean over seeds at the evaluation that the study reports, with its 95 % interval. "
    "Predicted is the 95 % interval for the published number under the variance over our seeds, and theirs "
    "where it is published. Reproduced: all of it lies within 1 point of the published number (5 points for "
    "time saved, 1 % for counts); not reproduced: all of it lies further away; otherwise the runs cannot tell. "
    "Times are compared as shares saved of the own baseline's time, never as seconds. The line below "
    "the table says what is not compared, and why.",
    note=left_out,
)

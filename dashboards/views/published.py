"""Published numbers beside ours, drawn and tabled: hollow diamonds, and ours minus theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dashboards.views.marks import name, numbers
from dashboards.views.overlay import NOTHING as NOTHING
from dashboards.views.overlay import Overlay as Overlay
from dashboards.views.overlay import overlay as overlay
from dashboards.views.part import Part
from dashboards.views.theme import Look

_FIGURES = ("theirs_low", "theirs_high", "ours", "ours_low", "ours_high", "difference")


def published_traces(found: Overlay, at: Mapping[str, float], look: Look) -> list[dict[str, Any]]:
    """A trace of hollow diamonds a study, at the places of the cells, in per cent."""
    points = found.points[found.points["cell"].isin(list(at))]
    return [_diamonds(str(study), rows, at, look) for study, rows in points.groupby("study", sort=False)]


def _diamonds(study: str, rows: pd.DataFrame, at: Mapping[str, float], look: Look) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"published: {name(study)}",
        "x": [at[cell] for cell in rows["cell"]],
        "y": numbers(rows["value"], 100),
        "error_y": {
            "type": "data", "symmetric": False, "color": look.muted, "thickness": 1.5, "width": 8,
            "array": numbers(rows["high"] - rows["value"], 100),
            "arrayminus": numbers(rows["value"] - rows["low"], 100),
        },
        "marker": {"symbol": "diamond-open", "size": 13, "color": look.text, "line": {"width": 2, "color": look.text}},
        "customdata": [[name(citation, 90)] for citation in rows["citation"]],
        "hovertemplate": "%{y:.2f} %<br>%{customdata[0]}<br>one published number, see Published for the differences"
        "<extra></extra>",
    }  # fmt: skip


# --- Ours minus theirs


def no_published(info: Overlay) -> str:
    """In words."""
    if len(info.lines):
        return ""
    return " ".join(info.refusals) or "No published study is laid over (study: off)."


def published_table(info: Overlay) -> pd.DataFrame:
    """A row a number that may be compared, shares in per cent; then a row a reason for what may not."""
    lines = info.lines
    scale = lines["unit"].map({"share": 100.0}).astype("float64").fillna(1.0)
    scaled = {key: (scale * lines[key].astype("float64")).round(4) for key in _FIGURES}
    table = pd.DataFrame(
        {
            "study": lines["study"],
            "table": lines["source"],
            "metric": lines["metric"],
            "unit": lines["unit"].map(lambda unit: {"share": "%"}.get(unit, unit)),
            "frozen": lines["freeze"],
            "published": scaled["theirs_low"],
            "published, to": scaled["theirs_high"].where(lines["theirs_low"] != lines["theirs_high"]),
            "ours": scaled["ours"],
            "95 % from": scaled["ours_low"],
            "95 % to": scaled["ours_high"],
            "n": lines["n"],
            "ours minus published": scaled["difference"],
            "done otherwise": lines["differs"],
            "errata": lines["errata"],
            "not compared": "",
        }
    )
    refused = pd.DataFrame(
        [{"study": study, "not compared": why} for study, _, why in (text.partition(": ") for text in info.refusals)]
    )
    return pd.concat([table, refused], ignore_index=True) if len(refused) else table


def published_columns(found: Overlay, cells: pd.Series) -> dict[str, pd.Series]:
    """A column a study, in the order of `cells`; none where none may stand beside them."""
    return {
        f"published: {study} (%)": cells.map((100 * rows.set_index("cell")["value"]).round(4)).astype("float64")
        for study, rows in found.points.groupby("study", sort=False)
    }


PUBLISHED = Part(
    "published-table",
    "Ours minus published",
    "Numbers of published studies whose metric, split, corpus and train size are ours, with what was done otherwise "
    "and what is known to be wrong in them. Our side is the evaluation that the study reports, mean over seeds with "
    "Student's 95 % interval; times are compared as shares saved of the own baseline's time, never as seconds. "
    "Below: what may not be compared, and why.",
    overlay,
    published_table,
    empty=no_published,
)
PARTS = (PUBLISHED,)

"""Layers: what each layer knows before training, how far training moves it, and what freezing up to it loses."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.selection import Selection, whole_sweep
from dashboards.views.kit.axes import axis_name
from dashboards.views.kit.cells import drawn_of, hundredths, panel_titles
from dashboards.views.kit.labels import freeze_column, name, numbers
from dashboards.views.kit.marks import interval_bars
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import Figure, Look, axis, layout
from orchestrator.extras.layer_probing.layer_curves import findings, layer_curves
from trials.metrics.metric import metric_label

MOST_PANELS = 12
_COLUMNS = 3  # panels in a row
_LINE, _CURVE, _FOOT = 22, 116, 64  # pixels: a line of text, a curve, the axis of x
_WHERE = ("task", "corpus", "model", "train_size", "setup")


class LayerPanels(NamedTuple):
    """The curves of every setting of a sweep that has any.

    Attributes:
        table: As of `layer_curves.layer_curves`, with `panel`.
        titles: Of the panels.
        tolerance: Acceptable loss in points.
        note: Which panels and curves are not drawn, and why; empty if all are.
    """

    table: pd.DataFrame
    titles: list[str]
    tolerance: float
    note: str


def prepare_layers(selection: Selection) -> LayerPanels:
    """A panel for each corpus, model, train size and set-up with a probe or a drift, in the order of the plan."""
    whole, snapshot = whole_sweep(selection), selection.snapshot
    curves = layer_curves(whole.with_sentences, snapshot.specs, snapshot.probes, snapshot.drifts)
    keys = ["probe_id", "baseline", "setup"]
    measured = curves.groupby(keys)[["n_probes", "n_drifts"]].transform("sum").sum(axis=1) > 0
    table = curves[measured].reset_index(drop=True)
    if not len(table):
        source = whole.sweep.source if whole.sweep is not None and whole.sweep.source else "FILE"
        command = shlex.join(["permafrost", "layers", "--sweep", source, "--store", snapshot.address])
        raise EmptyPartError(f"No layer of this sweep has been probed yet. Run: {command}")
    table = table.assign(panel=table.groupby(keys, sort=False).ngroup())
    titles = panel_titles(table, _WHERE)
    notes = [drawn_of(MOST_PANELS, len(titles), "panels")]
    if table["drift"].isna().all():
        notes.append(
            "How far training moved each layer is unknown: no trial without freezing has stored weights. Add "
            "`keep: weights` to the sweep's file, run it, and `permafrost layers` again."
        )
    return LayerPanels(table, titles, selection.plan.tolerance, " ".join(filter(None, notes)))


def draw_layers(info: LayerPanels, look: Look) -> Figure:
    """In each panel the curves above each other over one axis of depth, each on its own scale below what it shows.

    Of a curve that no panel has there are only the words.
    """
    titles = info.titles[:MOST_PANELS]
    high = {curve: _CURVE if info.table[curve].notna().any() else 0 for curve in _CURVES}
    columns = 1 if look.narrow else min(_COLUMNS, len(titles))
    panel = _LINE + sum(_LINE + pixels for pixels in high.values()) + _FOOT
    height = -(-len(titles) // columns) * panel - _FOOT  # the margin has the axis of the last row
    drawn = layout(look, x={}, y={}, height=height + 72, hovermode="x unified", showlegend=False)
    lines, _ = (drawn.pop("xaxis"), drawn.pop("yaxis")), drawn.pop("legend")
    drawn["margin"] |= {"t": 8, "b": 64}
    data: list[dict[str, Any]] = []
    notes, shapes = [], []
    for n, title in enumerate(titles):
        row, column = divmod(n, columns)
        across = [column / columns + 0.04 * (column > 0), (column + 1) / columns - 0.01]
        at_words = {"xref": "paper", "yref": "paper", "x": across[0], "xanchor": "left", "yanchor": "top",
                    "xshift": -40, "showarrow": False, "font": {"size": 12}}  # fmt: skip
        top = row * panel
        table = info.table[info.table["panel"] == n]
        drawn_here = [curve for curve in _CURVES if table[curve].notna().any()]
        texts = {"": f"<b>{name(title)}</b>"} | findings(table, info.tolerance / 100)
        for curve, text in texts.items():
            notes.append({**at_words, "text": text, "y": 1 - top / height})
            top += _LINE
            if curve not in drawn_here:
                top += high.get(curve, 0)
                continue
            at = axis_name(len(data))[1:]
            last = curve == drawn_here[-1]
            x = axis("layers from the embeddings (0) up" if last else "", dtick=1, showticklabels=last)
            x["range"] = [-0.5, int(table["depth"].max()) + 0.5]
            y = axis(_CURVES[curve] if column == 0 else "", nticks=5, zeroline=curve == "loss")
            bottom, top = top + _CURVE, top
            drawn[f"xaxis{at}"] = {**lines[0], **x, "domain": across, "anchor": f"y{at}"}
            drawn[f"yaxis{at}"] = {**lines[1], **y, "domain": [1 - (bottom - 10) / height, 1 - top / height],
                                   "anchor": f"x{at}"}  # fmt: skip
            data.append(_trace(curve, table, look, at))
            top = bottom
            if curve == "loss":
                tolerated = {"x0": 0, "x1": 1, "y0": info.tolerance, "y1": info.tolerance}
                line = {"color": look.text, "width": 1, "dash": "dot"}
                shapes.append({"type": "line", "xref": f"x{at} domain", "yref": f"y{at}", **tolerated, "line": line})
    return {"data": data, "layout": {**drawn, "annotations": notes, "shapes": shapes}}


_CURVES = {"probe": "probe (%)", "drift": "moved (%)", "loss": "loss (points)"}


def _trace(curve: str, table: pd.DataFrame, look: Look, at: str) -> dict[str, Any]:
    ends = table.rename(columns={curve: "mean", f"{curve}_low": "low", f"{curve}_high": "high"})
    colour = {"probe": look.line(0), "drift": look.line(1), "loss": look.muted}[curve]
    trace = {
        "name": _CURVES[curve], "xaxis": f"x{at}", "yaxis": f"y{at}", "x": table["depth"].tolist(),
        "y": numbers(ends["mean"], 100), "customdata": numbers(table["control"], 100),
        "hovertemplate": "%{y:.2f}" + "; control labels %{customdata:.2f}" * (curve == "probe"),
        "error_y": interval_bars(ends, look.text if curve == "drift" else colour, scale=100),
    }  # fmt: skip
    if curve == "drift":  # of a layer by itself, not of all up to there
        return {**trace, "type": "bar", "width": 0.5, "marker": {"color": colour}}
    # A loss has the colours that these depths have everywhere.
    depths = [look.depth(int(row.depth), int(row.n_layers)) for row in table.itertuples()]
    marker = {"symbol": "circle", "color": colour} if curve == "probe" else {"symbol": "square", "color": depths}
    line = {"mode": "lines+markers", "line": {"color": colour}, "marker": {**marker, "size": 8}, "connectgaps": True}
    return {**trace, "type": "scatter", **line}


def layers_table(info: LayerPanels) -> pd.DataFrame:
    """One row per setting of the baseline and depth."""
    t = info.table
    frozen = pd.Series([f"first {depth}+E" if depth else "embeddings" for depth in t["depth"]], dtype=object)
    return pd.DataFrame(
        {
            **{key.replace("_", " "): t[key] for key in ("task", "corpus", "model")},
            "train size (sentences)": t["train_size"],
            "layers": freeze_column(frozen, t["n_layers"]),
            **hundredths(t, probe="probe (%)", probe_low="probe from (%)", probe_high="probe to (%)"),
            "score of the probe": t["metric"].map(metric_label),
            **hundredths(t, selectivity="selectivity (points)"),
            "train subsets": t["n_probes"],
            **hundredths(t, drift="weights moved (%)"),
            "CKA before and after": t["cka"].round(4),
            "trials with weights": t["n_drifts"],
            **hundredths(t, loss="loss (points)", loss_low="loss from (points)", loss_high="loss to (points)"),
            "pairs": t["n_pairs"],
        }
    )


LAYERS = Part(
    "layers-curves",
    "What each layer knows, and what freezing it loses",
    "Score of a linear probe of the untouched encoder, drift of the baseline's weights, and the loss of freezing, by "
    "depth.",
    prepare_layers,
    layers_table,
    draw_layers,
    if_any=True,
    note=lambda info: info.note,
    method="Probe: ridge classifier on the output of the first k layers (0: of the embeddings), learned from the train "
    "subsets of the trials and scored on dev; intervals over subsets and sentences. Its score on control labels, which "
    "each word type has at random, is what a probe can memorise (Hewitt and Liang 2019). Moved: |W - W0| / |W0| of the "
    "k-th layer at the best epoch of the baseline, where weights were kept. Loss: the baseline's score less that with "
    "the embeddings and the first k layers frozen, paired by seed; intervals are those that decide.",
    of_store=True,
)

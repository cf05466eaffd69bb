"""Layers: what each layer knows before training, how far training moves it, and what freezing up to it loses."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import pandas as pd

from dashboards.data.contributions import trials_with_sentences
from dashboards.data.frames import EVERYTHING
from dashboards.data.selection import Selection, whole_sweep
from dashboards.views.drawing import freeze_column, interval_bars, name, numbers
from dashboards.views.part import Part
from dashboards.views.placements import PLACEMENTS
from dashboards.views.theme import Figure, Look, axis, layout
from dashboards.views.view import SHARED_CONTROLS, View
from orchestrator.analysis.curve_prediction import prediction_summary
from orchestrator.analysis.layer_curves import layer_curves
from trials.metrics.metric import metric_label

MOST_PANELS = 12
_COLUMNS = 3  # panels in a row
_PLOT, _HEAD, _FOOT = 130, 40, 60  # pixels: a curve of a panel, its title, its x axis
_WHERE = ("task", "corpus", "model", "train_size", "setup")


class LayerPanels(NamedTuple):
    """The curves of every setting of a sweep that has any.

    Attributes:
        table: As of `layer_curves.layer_curves`, with `panel`.
        titles: Of the panels.
        note: How many panels are not drawn; empty if none.
        missing: What to run where nothing was measured; empty if something was.
    """

    table: pd.DataFrame
    titles: list[str]
    note: str
    missing: str


def prepare_layers(selection: Selection) -> LayerPanels:
    """A panel for each corpus, model, train size and set-up with a probe or a drift, in the order of the plan."""
    whole, snapshot = whole_sweep(selection), selection.snapshot
    curves = layer_curves(trials_with_sentences(whole), snapshot.specs, snapshot.probes, snapshot.drifts)
    keys = ["probe_id", "baseline", "setup"]
    known = curves.groupby(keys)[["n_probes", "n_drifts"]].transform("sum").sum(axis=1) > 0
    table = curves[known].reset_index(drop=True)
    table = table.assign(panel=table.groupby(keys, sort=False).ngroup())
    heads = table.drop_duplicates("panel")
    varying = [key for key in _WHERE if heads[key].nunique() > 1] or ["corpus"]
    titles = [", ".join(_word(row[key]) for key in varying) for row in heads.to_dict("records")]
    note = f"{MOST_PANELS} of {len(titles)} panels are drawn; the table has all." * (len(titles) > MOST_PANELS)
    return LayerPanels(table, titles, note, "" if len(table) else _command(whole))


def _word(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _command(whole: Selection) -> str:
    source = whole.sweep.source if whole.sweep is not None and whole.sweep.source else "FILE"
    words = ["permafrost", "layers", "--sweep", source, "--store", whole.snapshot.address]
    return f"No layer of this sweep has been probed yet. Run: {shlex.join(words)}"


def draw_layers(info: LayerPanels, look: Look) -> Figure:
    """In each panel three curves above each other over one axis of depth; each curve has one scale in all panels."""
    titles = info.titles[:MOST_PANELS]
    columns = 1 if look.narrow else min(_COLUMNS, len(titles))
    rows = -(-len(titles) // columns)
    height = rows * (_HEAD + 3 * _PLOT + _FOOT) - _FOOT  # the margin has the axis of the last row
    drawn = layout(look, x={}, y={}, height=height + 60, hovermode="x unified")
    lines = drawn.pop("xaxis"), drawn.pop("yaxis")
    data: list[dict[str, Any]] = []
    notes = []
    for n, title in enumerate(titles):
        row, column = divmod(n, columns)
        across = [column / columns + 0.06 * (column > 0), (column + 1) / columns - 0.01]
        top = 1 - (row * (_HEAD + 3 * _PLOT + _FOOT) + _HEAD) / height
        table = info.table[info.table["panel"] == n]
        for k, (curve, words) in enumerate(_CURVES.items()):
            at = "" if not data and k == 0 else str(3 * n + k + 1)
            high = top - k * _PLOT / height
            x = axis("layers from the embeddings up" if k == 2 else "", dtick=1, showticklabels=k == 2)
            drawn[f"xaxis{at}"] = {**lines[0], **x, "domain": across, "anchor": f"y{at}"}
            drawn[f"yaxis{at}"] = {
                **lines[1], **axis(words if column == 0 else ""), "domain": [high - 0.86 * _PLOT / height, high],
                "anchor": f"x{at}", "nticks": 5, "zeroline": curve == "loss", **({"matches": _first(k)} if n else {}),
            }  # fmt: skip
            data += _traces(curve, table, look, at, first=n == 0)
        notes.append(
            {"text": name(title), "xref": "paper", "yref": "paper", "x": across[0], "y": top, "xanchor": "left",
             "yanchor": "bottom", "yshift": 4, "showarrow": False}
        )  # fmt: skip
    if info.note:
        notes.append({"text": info.note, "xref": "paper", "yref": "paper", "x": 1, "y": 0, "xanchor": "right",
                      "yanchor": "top", "yshift": -50, "showarrow": False})  # fmt: skip
    return {"data": data, "layout": {**drawn, "annotations": notes}}


_CURVES = {"probe": "score (%)", "drift": "moved (%)", "loss": "loss (points)"}


def _first(k: int) -> str:
    return f"y{k + 1}" if k else "y"


def _traces(curve: str, table: pd.DataFrame, look: Look, at: str, *, first: bool) -> list[dict[str, Any]]:
    ends = table.rename(columns={curve: "mean", f"{curve}_low": "low", f"{curve}_high": "high"})
    colour = {"probe": look.line(0), "drift": look.line(1), "loss": look.muted}[curve]
    marks: Any = colour
    if curve == "loss":  # the colours that these depths have everywhere
        marks = [look.depth(int(row.depth), int(row.n_layers)) for row in table.itertuples()]
    shared = {
        "type": "scatter",
        "xaxis": f"x{at}",
        "yaxis": f"y{at}",
        "x": table["depth"].tolist(),
        "showlegend": first,
    }
    main = {
        **shared,
        "mode": "lines+markers",
        "name": _NAMES[curve],
        "legendgroup": curve,
        "y": numbers(ends["mean"], 100),
        "error_y": interval_bars(ends, colour, scale=100),
        "line": {"color": colour, "dash": _DASHES[curve]},
        "marker": {"symbol": _SYMBOLS[curve], "size": 8, "color": marks},
        "connectgaps": True,
        "hovertemplate": f"%{{y:.2f}}<extra>{_NAMES[curve]}</extra>",
    }
    if curve != "probe":
        return [main]
    control = {
        **shared,
        "mode": "lines",
        "name": _NAMES["control"],
        "legendgroup": "control",
        "y": numbers(table["control"], 100),
        "line": {"color": look.muted, "dash": "dot"},
        "hovertemplate": f"%{{y:.2f}}<extra>{_NAMES['control']}</extra>",
    }
    return [main, control]


_NAMES = {
    "probe": "linear probe, before training",
    "control": "the same probe on control labels",
    "drift": "weights moved without freezing",
    "loss": "loss of freezing up to there",
}
_SYMBOLS = {"probe": "circle", "drift": "diamond", "loss": "square"}
_DASHES = {"probe": "solid", "drift": "dash", "loss": "solid"}


def layers_table(info: LayerPanels) -> pd.DataFrame:
    """One row per setting of the baseline and depth."""
    t = info.table
    frozen = pd.Series([f"first {depth}+E" if depth else "embeddings" for depth in t["depth"]], dtype=object)
    return pd.DataFrame(
        {
            **{key.replace("_", " "): t[key] for key in ("task", "corpus", "model")},
            "train size (sentences)": t["train_size"],
            "layers": freeze_column(frozen, t["n_layers"]),
            "probe (%)": (100 * t["probe"]).round(2),
            "probe from (%)": (100 * t["probe_low"]).round(2),
            "probe to (%)": (100 * t["probe_high"]).round(2),
            "score of the probe": t["metric"].map(metric_label),
            "selectivity (points)": (100 * t["selectivity"]).round(2),
            "train subsets": t["n_probes"],
            "weights moved (%)": (100 * t["drift"]).round(2),
            "CKA before and after": t["cka"].round(4),
            "trials with weights": t["n_drifts"],
            "loss (points)": (100 * t["loss"]).round(2),
            "loss from (points)": (100 * t["loss_low"]).round(2),
            "loss to (points)": (100 * t["loss_high"]).round(2),
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
    why_empty=lambda info: info.missing,
    method="Probe: ridge classifier on the output of the first k layers (0: of the embeddings), learned from the train "
    "subsets of the trials and scored on dev; intervals over subsets and sentences. Its score on control labels, which "
    "each word type has at random, is what a probe can memorise (Hewitt and Liang 2019). Moved: |W - W0| / |W0| of the "
    "k-th layer at the best epoch of the baseline, where weights were kept. Loss: the baseline's score less that with "
    "the embeddings and the first k layers frozen, paired by seed; intervals are those that decide.",
    of_store=True,
)


class Predictions(NamedTuple):
    """How well each predictor does, over all sweeps of the store.

    Attributes:
        table: As of `curve_prediction.prediction_summary`.
        tolerance: In points.
    """

    table: pd.DataFrame
    tolerance: float


def prepare_predictions(selection: Selection) -> Predictions:
    """Over the settings of all sweeps, each once."""
    snapshot, tolerance = selection.snapshot, selection.query.tolerance
    sweeps = [whole_sweep(selection, sweep) for sweep in snapshot.sweeps.values() if sweep.name != EVERYTHING]
    found = [
        layer_curves(trials_with_sentences(whole), snapshot.specs, snapshot.probes, snapshot.drifts)
        for whole in sweeps or [whole_sweep(selection)]
    ]
    curves = pd.concat(found, ignore_index=True).drop_duplicates(["probe_id", "baseline", "setup", "depth"])
    measured = curves["n_probes"].sum() + curves["n_drifts"].sum() > 0
    return Predictions(prediction_summary(curves if measured else curves.iloc[:0], tolerance / 100), tolerance)


def predictions_table(info: Predictions) -> pd.DataFrame:
    """One row per predictor."""
    t = info.table
    return pd.DataFrame(
        {
            "predictor": t["predictor"].map(_PREDICTORS),
            "corpora": t["corpora"],
            "settings": t["settings"],
            **{words: t[name].round(2) for name, words in _JUDGED.items()},
        }
    )


_JUDGED = {
    "over_depths": "correlation over depths",
    "over_depths_low": "over depths from",
    "over_depths_high": "over depths to",
    "over_steps": "correlation over steps",
    "over_steps_low": "over steps from",
    "over_steps_high": "over steps to",
    "error": "depth error (layers)",
    "error_low": "error from (layers)",
    "error_high": "error to (layers)",
}
_PREDICTORS = {
    "depth": "the depth itself",
    "probe": "fall of the probe",
    "drift": "share of the weights' movement",
    "cka": "change of the states (1 - CKA)",
}
PREDICTIONS = Part(
    "layers-prediction",
    "Does it predict what freezing loses?",
    "How well each curve ranks the depths by their losses, and how far off the depth is that it names; all sweeps.",
    prepare_predictions,
    predictions_table,
    why_empty=lambda info: "" if len(info.table) else "This needs probes or drifts, and four depths that were frozen.",
    method="Spearman's correlation with the losses over depths, and over steps: of what a further layer adds to both. "
    "The depth itself ranks the depths of any rising curve; a predictor has to do better. Depth error: layers between "
    "the deepest freeze within the tolerance and the one that a threshold on the predictor names, which was chosen on "
    "the other corpora. Means over corpora; 95 % intervals (Student's t) from three corpora on.",
    note=lambda info: f"Tolerance: {info.tolerance:g} points.",
    of_store=True,
)
VIEW = View(
    "/layers",
    "Layers",
    "What does each layer know, and what does freezing it lose?",
    (LAYERS, PREDICTIONS, PLACEMENTS),
    (*SHARED_CONTROLS, "tolerance", "cost"),
)

"""The page of one trial: settings, scores, costs, predictions, and the other seeds of its setting."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
import pandas as pd
from dash import dcc, html

from dashboards.data.frames import Snapshot
from dashboards.data.selection import SPLITS, PageQuery
from dashboards.views.kit.components import frame_table, graph, marked_word
from dashboards.views.kit.drawing import Figure, Look, axis, epoch_axis, layout
from orchestrator.analysis.cells import flatten
from orchestrator.analysis.freeze_names import freeze_changes_by, freeze_name
from orchestrator.config.quantities import points
from trials.errors import StoreError
from trials.record import COSTS, State
from trials.spec import Seeds

MAX_SENTENCES = 30  # with an error; further ones are counted
_OTHERS = {
    "trainable_params": "trainable parameters",
    "total_params": "parameters",
    "device": "device",
    "git_commit": "commit",
}


def trial_page(snapshot: Snapshot, trial_id: str, look: Look) -> Any:
    """The page, or a message if there is no such trial."""
    row = snapshot.trial(trial_id)
    if row is None:
        return dmc.Alert(
            f"This store has no trial {trial_id[:40]!r}. Trials lists those it has.", title="No such trial", color="red"
        )
    trials = snapshot.sweeps[row["sweep"]].trials
    epochs = snapshot.epochs(trials[trials["trial_id"] == trial_id])
    sections = [
        dmc.Title(f"Trial {trial_id}", order=1, size="h3"),
        dmc.Text(_sentence(row)),
        *_to_compare(trials, row),
        *_error(row),
        *_curve(epochs, look),
        _section("Evaluations", frame_table(_evaluations(epochs))) if len(epochs) else None,
        _section("Cost", frame_table(_costs(row))),
        _section("Other seeds of this setting", _siblings(trials, row)),
        _section("Scores by label", _tags(snapshot, trials, trial_id)),
        _section("Predictions on dev", *_predictions(snapshot, trial_id)),
        _section("Settings", frame_table(_settings(snapshot, row))),
    ]
    return dmc.Stack([section for section in sections if section is not None], gap="md")


def _section(title: str, *body: Any) -> Any:
    # What is wider than a phone scrolls in its box, with the keyboard too.
    box = html.Div(body, className="wide", tabIndex="0", role="group", **{"aria-label": title})
    return dmc.Paper([dmc.Title(title, order=2, size="h4"), box], p="md", withBorder=True, className="part")


def _sentence(row: Any) -> str:
    score = (
        ""
        if pd.isna(row["score"])
        else f", {row['metric']} {points(row['score'])} % on dev (epoch {row['best_epoch']:g})"
    )
    test = "" if pd.isna(row["test_score"]) else f", {points(row['test_score'])} % on test"
    frozen = freeze_name(row["freeze_spec"], int(row["n_layers"]))
    changing = freeze_changes_by(pd.DataFrame([row]), "trial_id").get(row["trial_id"])
    return (
        f"{row['model']} on {row['corpus']}, frozen: {frozen}, train size {row['train_size']:,}, "
        f"seed {Seeds.label_of(int(row['seed']))}: {str(row['state']).replace('_', ' ')}{score}{test}."
        + (f" It {changing}." if changing else "")
    )


def _to_compare(trials: pd.DataFrame, row: Any) -> list[Any]:
    """A link to the comparison with the completed baseline of the same seed, if there is one."""
    baseline = trials[(trials["cell"] == row["baseline"]) & (trials["seed"] == row["seed"])]
    completed = baseline.loc[baseline["state"] == State.COMPLETED.value, "trial_id"]
    if row["cell"] == row["baseline"] or not len(completed):
        return []
    search = PageQuery(trials=(row["trial_id"], completed.iloc[0])).search()
    return [dcc.Link("Compare with the baseline", href=f"/compare{search}")]


def _error(row: Any) -> list[Any]:
    error = row.get("error")
    if error is None or pd.isna(error):
        return []
    return [dmc.Alert(html.Pre(str(error)[:8000], style={"whiteSpace": "pre-wrap"}), title="Error", color="red")]


def _curve(epochs: pd.DataFrame, look: Look) -> list[Any]:
    if not len(epochs):
        return []
    return [
        _section(
            "Scores and losses",
            graph("trial-curve", "score and losses by epoch", curve_figure(epochs, look), kind="still"),
        )
    ]


def curve_figure(epochs: pd.DataFrame, look: Look) -> Figure:
    """`score` (left axis, percent), `train_loss` and `dev_loss` (right axis) by `epoch`."""
    lines = (
        ("score", "score", "solid", "y", 100.0, "#0072B2"),
        ("train_loss", "train loss", "dot", "y2", 1.0, "#D55E00"),
        ("dev_loss", "dev loss", "dash", "y2", 1.0, "#009E73"),
    )
    data = [
        {
            "type": "scatter", "mode": "lines+markers", "name": name, "yaxis": place,
            "line": {"dash": dash, "color": colour},
            "x": epochs["epoch"].round(4).tolist(),
            "y": [None if pd.isna(value) else round(factor * value, 4) for value in epochs[column]],
        }
        for column, name, dash, place, factor, colour in lines
    ]  # fmt: skip
    right = {**axis("loss"), "overlaying": "y", "side": "right", "showgrid": False, "tickmode": "auto"}
    x = epoch_axis("epoch", epochs["epoch"].max())
    return {"data": data, "layout": layout(look, x=x, y=axis("score (%)"), height=320, yaxis2=right)}


def _evaluations(epochs: pd.DataFrame) -> pd.DataFrame:
    columns = {
        "epoch": "epoch", "step": "step", "score": "score (%)", "train_loss": "train loss", "dev_loss": "dev loss",
        "lr": "learning rate", "train_s": "training (s)",
    }  # fmt: skip
    return epochs.assign(score=100 * epochs["score"])[list(columns)].rename(columns=columns)


def _costs(row: Any) -> pd.DataFrame:
    costs = {column.label: _scale(row.get(name), column.unit) for name, column in COSTS.items()}
    quantities = costs | {label: row.get(name) for name, label in _OTHERS.items()}
    values = {label: value for label, value in quantities.items() if value is not None and not pd.isna(value)}
    return pd.DataFrame(
        {"quantity": list(values), "value": [round(v, 3) if isinstance(v, float) else v for v in values.values()]},
        dtype=object,
    )


def _scale(value: Any, unit: float) -> Any:
    return value if value is None or unit == 1 else value / unit


def _siblings(trials: pd.DataFrame, row: Any) -> Any:
    others = trials[(trials["cell"] == row["cell"]) & (trials["trial_id"] != row["trial_id"])]
    if not len(others):
        return dmc.Text("This setting has no other seed.")
    shown = others.sort_values("seed").assign(score=100 * others["score"], seed=others["seed"].map(Seeds.label_of))
    return frame_table(
        shown[["trial_id", "seed", "state", "score", "train_s"]].rename(
            columns={"trial_id": "trial", "score": "score (%)", "train_s": "training (s)"}
        )
    )


def _tags(snapshot: Snapshot, trials: pd.DataFrame, trial_id: str) -> Any:
    mine = trials[trials["trial_id"] == trial_id]
    scores = pd.concat([snapshot.tags(mine, split) for split in SPLITS], ignore_index=True)
    if not len(scores):
        return dmc.Text("No scores by label are stored for this trial.")
    shown = scores.assign(**{name: 100 * scores[name] for name in ("precision", "recall", "f1")})
    columns = {"precision": "precision (%)", "recall": "recall (%)", "f1": "F1 (%)"}
    return frame_table(
        shown[["split", "level", "tag", "support", "predicted", "correct", *columns]].rename(columns=columns)
    )


def _predictions(snapshot: Snapshot, trial_id: str) -> list[Any]:
    """The first sentences with a wrong label; wrong words are marked."""
    try:
        rows = snapshot.store.predictions(trial_id).to_pylist()
    except StoreError as error:
        return [dmc.Text(str(error))]
    dev = [row for row in rows if row["split"] == "dev"]
    if not dev:
        return [dmc.Text('No predictions are stored. Set "predictions: all" in the sweep file to store them.')]
    wrong = [row for row in dev if row["gold"] != row["predicted"]]
    right, shown = len(dev) - len(wrong), min(len(wrong), MAX_SENTENCES)
    return [
        dmc.Text(f"{right:,} of {len(dev):,} sentences have no error. The first {shown} with an error:"),
        *(_sentence_of(row) for row in wrong[:MAX_SENTENCES]),
    ]


def _sentence_of(row: Any) -> Any:
    if len(row["forms"] or []) != len(row["gold"] or []):  # a text with one label
        text, gold, predicted = " / ".join(row["forms"] or []), row["gold"], row["predicted"]
        return html.P(
            [text, " ", html.Mark(f"gold {gold}, predicted {predicted}", className="wrong")], className="sentence"
        )
    parts: list[Any] = []
    for form, gold, predicted in zip(row["forms"], row["gold"], row["predicted"], strict=True):
        if gold == predicted:
            parts += [form, " "]
        else:
            parts += [marked_word(form, f"gold {gold}, predicted {predicted or 'nothing'}"), " "]
    return html.P(parts, className="sentence", dir="auto")


def _settings(snapshot: Snapshot, row: Any) -> pd.DataFrame:
    flat = settings_of(snapshot, row)
    return pd.DataFrame({"setting": list(flat), "value": list(flat.values())})


def settings_of(snapshot: Snapshot, row: Any) -> dict[str, str]:
    """The settings of a trial, by their dotted names."""
    content = snapshot.spec(row["cell"], int(row["seed"])).model_dump(mode="json")
    return {key: str(value) for key, value in flatten(content).items() if value is not None}

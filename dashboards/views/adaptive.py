"""Freezing before training against freezing while training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from dashboards.data.selection import Selection, of_corpus
from dashboards.views.kit.cells import Shown, hundredths, with_cells
from dashboards.views.kit.drawing import interval_bars, name, numbers
from dashboards.views.kit.part import EmptyPartError, Part
from dashboards.views.kit.theme import SYMBOLS, Figure, Look, axis, layout
from orchestrator.analysis.when_frozen import ADAPTIVE, STATIC, UNFREEZING, when_frozen


def prepare_when(selection: Selection) -> Shown:
    """Every set-up of the corpus that has the baseline of a selected trial of the largest train size.

    Columns: those of `when_frozen.when_frozen` and `cells.KEYS`.
    """
    size = int(selection.trials["train_size"].max()) if len(selection.trials) else 0
    wanted = selection.trials.loc[selection.trials["train_size"] == size, "baseline"].unique()
    all_setups = of_corpus(selection)
    trials = all_setups.trials[all_setups.trials["baseline"].isin(wanted)].reset_index(drop=True)
    losses = when_frozen(replace(all_setups, trials=trials).with_sentences, selection.snapshot.specs, selection.column)
    table = with_cells(losses, trials)
    table = table[table["n_pairs"] > 0].reset_index(drop=True)
    if (table["when"] == STATIC).all():
        raise EmptyPartError(
            "No setting freezes or unfreezes while training. configs/sweeps/adaptive.yaml has three rules that do."
        )
    if table["saved"].isna().all():
        raise EmptyPartError("No pair of trials has its training FLOPs recorded.")
    return Shown(table, value_name=selection.value_name)


def draw_when(info: Shown, look: Look) -> Figure:
    """Loss against saved operations: static depths joined in their order, and a marker of its own for each rule."""
    drawn = info.table[info.table["saved"].notna()]
    static = drawn[drawn["when"] == STATIC].sort_values("saved")
    data = [_trace(static, look, "static depths", None)] if len(static) else []
    for number, row in enumerate(drawn[drawn["when"] != STATIC].index):
        rule = drawn.loc[[row]]
        data.append(_trace(rule, look, str(rule["setting"].iloc[0]), number))
    x, y = (
        axis("saved of the baseline's training FLOPs (%)"),
        axis(f"loss of {info.value_name} (points)", zeroline=True),
    )
    return {"data": data, "layout": layout(look, x=x, y=y, height=460)}


def _trace(rows: pd.DataFrame, look: Look, title: str, number: int | None) -> dict[str, Any]:
    """Settings of one kind: with the number of a rule as its marker, without one joined and coloured by depth."""
    depths = zip(rows["depth"], rows["n_layers"], strict=True)
    loss = rows.rename(columns={"loss": "mean", "loss_low": "low", "loss_high": "high"})
    saved = rows.rename(columns={"saved": "mean", "saved_low": "low", "saved_high": "high"})
    return {
        "type": "scatter",
        "mode": "markers+lines" if number is None else "markers",
        "name": name(title),
        "x": numbers(rows["saved"], 100, 2),
        "y": numbers(rows["loss"], 100, 3),
        "error_x": interval_bars(saved, look.muted, scale=100, thickness=1),
        "error_y": interval_bars(loss, look.muted, scale=100, thickness=1),
        "line": {"color": look.muted, "width": 1, "dash": "dot"},
        "marker": {
            "symbol": SYMBOLS[0 if number is None else 1 + number % (len(SYMBOLS) - 1)],
            "size": 11,
            "color": [look.depth(*depth) for depth in depths] if number is None else look.line(number),
            "line": {"width": 1, "color": look.text},
        },
        "customdata": [[name(label) for label in pair] for pair in zip(rows["setting"], rows["froze"], strict=True)],
        "hovertemplate": "%{y:+.2f} points, %{x:.1f} % saved<br>%{customdata[1]}<extra>%{customdata[0]}</extra>",
    }


def when_table(info: Shown) -> pd.DataFrame:
    """One row per setting."""
    t = info.table
    return pd.DataFrame(
        {
            "setting": t["setting"],
            "decided": t["when"].map({STATIC: "before training", ADAPTIVE: "while training", UNFREEZING: "by epoch"}),
            "what it froze": t["froze"],
            "pairs": t["n_pairs"],
            **hundredths(t, loss="loss (points)", loss_low="loss, 95 % from", loss_high="loss, 95 % to"),
            **hundredths(
                t, saved="training FLOPs saved (%)", saved_low="saved, 95 % from", saved_high="saved, 95 % to"
            ),
        }
    )


WHEN = Part(
    "cost-when",
    "Freezing before and while training",
    "Loss and saved training FLOPs of depths that are frozen from the start, and of rules that freeze while training.",
    prepare_when,
    when_table,
    draw_when,
    method="Every setting has the baseline's steps and seeds. A loss is the baseline's score minus the setting's, "
    "paired by seed, with its 95 % interval over seeds and dev sentences, of the setting alone. Saved operations count "
    "what was frozen when, what a rule measures, and the states of frozen layers once; Student's 95 % interval over "
    "seeds. A rule pays where it lies below the dotted line of static depths.",
    if_any=True,
)

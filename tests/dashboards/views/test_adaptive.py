"""The figure of static against adaptive freezing."""

from __future__ import annotations

import json

import pandas as pd

from dashboards.views.adaptive import WhenFrozen, draw_when, when_table, why_not_compared
from dashboards.views.kit.theme import LIGHT
from orchestrator.analysis.layer_curves import when_frozen
from tests.orchestrator.analysis.test_layer_curves import frame_and_specs


def info() -> WhenFrozen:
    frame, specs = frame_and_specs()
    columns = frame.drop_duplicates("cell")[["cell", "depth", "n_layers"]]
    return WhenFrozen(when_frozen(frame, specs).merge(columns, on="cell"), "dev accuracy", 400)


def test_static_depths_are_one_line_and_every_other_setting_is_named() -> None:
    figure = draw_when(info(), LIGHT)
    json.dumps(figure, allow_nan=False)
    assert [trace["name"] for trace in figure["data"]] == [
        "static depths",
        "adaptive (gradient norm)",
        "gradual unfreezing (first 2 + embeddings at first)",
    ]
    assert [trace["mode"] for trace in figure["data"]] == ["markers+lines", "markers", "markers"]
    assert len({trace["marker"]["symbol"] for trace in figure["data"]}) == 3


def test_the_table_has_every_setting() -> None:
    table = when_table(info())
    assert table["decided"].tolist() == ["before training", "while training", "by epoch"]
    assert table["loss (points)"].tolist() == [2.0, 1.0, 3.0]


def test_without_a_rule_the_figure_says_where_some_are() -> None:
    table = info().table
    static = WhenFrozen(table[table["when"] == "static"], "dev accuracy", 400)
    assert "adaptive.yaml" in why_not_compared(static)
    assert why_not_compared(info()) == ""
    assert isinstance(when_table(static), pd.DataFrame)

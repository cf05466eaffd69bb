"""The figure of static against adaptive freezing."""

from __future__ import annotations

import json
from pathlib import Path

from dashboards.views.adaptive import WHEN, draw_when, when_table
from dashboards.views.kit.cells import Shown
from dashboards.views.kit.theme import LIGHT
from orchestrator.analysis.when_frozen import when_frozen
from tests.dashboards.views.made import drawn, made
from tests.orchestrator.analysis.test_when_frozen import frame_and_specs


def info() -> Shown:
    frame, specs = frame_and_specs()
    columns = frame.drop_duplicates("cell")[["cell", "depth", "n_layers"]]
    return Shown(when_frozen(frame, specs).merge(columns, on="cell"), value_name="dev accuracy")


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


def test_without_a_rule_the_figure_says_where_some_are(tmp_path: Path) -> None:
    assert "adaptive.yaml" in drawn(WHEN, made(tmp_path / "s")).why_empty

"""What every figure keeps to: distinct marks, axes from zero, and zeros in the colour of the page."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import DARK, LIGHT, LOOKS
from dashboards.views.kit.part import Part, compute
from dashboards.views.registry import PARTS
from tests.dashboards.stores import STRATEGIES, specs, write_store
from tests.dashboards.views.made import selected, strictly

MORE = (
    ("first_k", (0,)),
    ("first_k", (0, 1, 2)),
    ("last_k", (4, 5)),
    ("last_k", (2, 3, 4, 5)),
    ("alternating", (1, 3)),
)
FROM_ZERO = ("epoch", "time (s)", "optimiser steps", "(J)", "(GiB)", "TFLOPs", "parameters")


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Every figure of ten settings at two train sizes, in every look."""
    trials = specs(seeds=(0, 1), strategies=(*STRATEGIES, *MORE))
    selection = selected(write_store(tmp_path_factory.mktemp("marks") / "store", trials))
    once = {name: _prepared_once(part, selection) for name, part in PARTS.items()}
    drawn = {(part, look): compute(once[part], selection, LOOKS[look]) for part in PARTS for look in LOOKS}
    return {f"{part} {look}": strictly(each.figure) for (part, look), each in drawn.items()
            if each.figure is not None and not each.why_empty}  # fmt: skip


def _prepared_once(part: Part[Any], selection: Selection) -> Part[Any]:
    """Looks differ in what is drawn alone."""
    info = functools.cache(lambda: part.prepare(selection))
    return replace(part, prepare=lambda _: info())


def _mark(trace: dict[str, Any]) -> str:
    """What tells a trace from others of its panel."""
    marker = {key: trace.get("marker", {}).get(key) for key in ("color", "symbol", "pattern")}
    line = {key: trace.get("line", {}).get(key) for key in ("color", "dash")}
    return str((trace["type"], trace.get("xaxis", "x"), trace.get("yaxis", "y"), marker, line))


def test_no_two_traces_of_a_panel_share_colour_dash_and_symbol(figures: dict[str, dict[str, Any]]) -> None:
    assert len(figures) > 30
    for name, figure in figures.items():
        named = {(trace["name"], _mark(trace)) for trace in figure["data"] if trace.get("showlegend", True)
                 and trace.get("name") and not isinstance(trace.get("marker", {}).get("color"), list)}  # fmt: skip
        assert len({mark for _, mark in named}) == len(named), name


def test_times_and_epochs_begin_at_zero_or_above(figures: dict[str, dict[str, Any]]) -> None:
    for name, figure in figures.items():
        for key, axis in figure["layout"].items():
            words = axis.get("title", {}).get("text", "") if key.startswith(("xaxis", "yaxis")) else ""
            if any(word in words for word in FROM_ZERO) and "saved" not in words:
                assert axis.get("rangemode") in ("tozero", "nonnegative") or axis.get("type") == "log" or (
                    "range" in axis and min(axis["range"]) >= 0
                ), f"{name}: {words}"  # fmt: skip


def test_zeros_of_maps_are_the_background() -> None:
    for look in (LIGHT, DARK):
        assert look.scale()[0] == [0.0, look.paper]
        assert look.diverging()[1] == [0.5, look.paper]

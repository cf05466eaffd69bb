"""The page of a trial: its sections and where it leads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plotly.io.json import to_json_plotly

from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.trial_page import trial_page
from tests.dashboards.stores import STRATEGIES, specs
from tests.dashboards.views.made import made
from trials.spec import TrialSpec

TRIALS = specs(seeds=(0, 1), train_sizes=(200,), strategies=STRATEGIES[:2])
(BASELINE, OTHER_BASELINE), (FROZEN, OTHER) = TRIALS[:2], TRIALS[2:]


def _properties(node: object) -> Iterator[dict[str, Any]]:
    """The properties of every component in a page."""
    if isinstance(node, list):
        for each in node:
            yield from _properties(each)
    elif isinstance(node, dict):
        yield node.get("props", {})
        yield from _properties(node.get("props", {}).get("children"))


def _page(selection: Selection, spec: TrialSpec) -> list[dict[str, Any]]:
    return list(_properties(json.loads(to_json_plotly(trial_page(selection.snapshot, spec.trial_id, LIGHT)))))


def _comparisons(selection: Selection, spec: TrialSpec) -> list[str]:
    links = [str(each.get("href", "")) for each in _page(selection, spec)]
    return [link for link in links if link.startswith("/compare")]


def test_a_trial_leads_to_its_comparison_with_the_baseline_of_its_seed(tmp_path: Path) -> None:
    selection = made(tmp_path / "s", trials=TRIALS)
    for trial, baseline in ((FROZEN, BASELINE), (OTHER, OTHER_BASELINE)):
        assert _comparisons(selection, trial) == [f"/compare?trials={trial.trial_id},{baseline.trial_id}"]
    assert _comparisons(selection, BASELINE) == []


def test_every_box_that_scrolls_can_be_focused_and_has_a_name(tmp_path: Path) -> None:
    page = _page(made(tmp_path / "s", trials=TRIALS), FROZEN)
    boxes = [each for each in page if each.get("className") == "wide"]
    assert len(boxes) >= 7
    assert all(each["tabIndex"] == "0" and each["role"] == "group" and each["aria-label"] for each in boxes)

"""The page of layers: a panel a corpus, three curves over depth, and the command where nothing was measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dashboards.data.selection import Selection
from dashboards.views.kit.theme import LOOKS, Look
from orchestrator.extras.layer_probing.layer_curves import findings, probe_id
from orchestrator.extras.layer_probing.layers_page import LAYERS, draw_layers, prepare_layers
from orchestrator.store import ResultStore, open_store
from tests.dashboards.stores import specs
from tests.dashboards.views.made import drawn, made, selected, strictly
from tests.examples import each
from tests.orchestrator.store.rows import drift, probe


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up store."""
    folder = tmp_path_factory.mktemp("unmeasured") / "my store"
    made(folder)
    return folder


def measured(folder: Path) -> ResultStore:
    """The store with probes at every depth of both train sizes, and drifts of its baselines."""
    store, every = open_store(folder), specs()
    for key in dict.fromkeys(probe_id(spec) for spec in every):
        store.append("probes", [probe(key, seed, depth) for seed in range(3) for depth in range(7)])
    moved = [spec for spec in every if spec.freeze.is_baseline]
    store.append("drifts", [drift(spec.trial_id, depth) for spec in moved for depth in range(7)])
    return store


@pytest.fixture(scope="module")
def selection(unmeasured: Path, tmp_path_factory: pytest.TempPathFactory) -> Selection:
    return selected(measured(shutil.copytree(unmeasured, tmp_path_factory.mktemp("layers") / "s")))


@each("look", LOOKS.values())
def test_each_curve_of_a_panel_has_its_own_scale_and_says_what_it_shows(selection: Selection, look: Look) -> None:
    info = prepare_layers(selection)
    layout = strictly(draw_layers(info, look))["layout"]
    axes = [layout[f"yaxis{n}"] for n in ("", 2, 3, 4, 5, 6)]
    assert not any("matches" in axis or "range" in axis for axis in axes)
    said = [note["text"] for note in layout["annotations"]]
    panel = info.table[info.table["panel"] == 1]
    assert said[4:] == ["<b>800</b>", *findings(panel, 0.01).values()]


def test_a_curve_that_no_trial_has_is_left_out_and_the_page_says_what_it_takes(
    unmeasured: Path, tmp_path: Path
) -> None:
    store = open_store(shutil.copytree(unmeasured, tmp_path / "s"))
    store.append("probes", [probe(key, 0, 0) for key in {probe_id(spec) for spec in specs()}])
    page = drawn(LAYERS, selected(store))
    assert page.figure is not None
    assert [axis for axis in page.figure["layout"] if axis.startswith("yaxis")] == [f"yaxis{n}" for n in ("", 2, 3, 4)]
    assert "`keep: weights`" in page.note


def test_without_probes_the_page_says_which_command_to_run(unmeasured: Path) -> None:
    words = drawn(LAYERS, selected(open_store(unmeasured))).why_empty
    assert "Run: permafrost layers --sweep " in words
    assert f"--store '{unmeasured}'" in words


def test_a_panel_too_many_is_in_the_table_and_named(selection: Selection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.extras.layer_probing.layers_page.MOST_PANELS", 1)
    page = drawn(LAYERS, selection)
    assert page.note == "1 of 2 panels are drawn; the table has all."
    assert page.figure is not None
    assert (len(page.figure["data"]), len(page.table)) == (3, 14)

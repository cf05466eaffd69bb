"""The quality kept in all sweeps of a store: which questions have a line, and how many lines a figure has."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.views import kept
from dashboards.views.kit.part import EmptyPartError
from dashboards.views.kit.theme import LIGHT
from tests.dashboards.stores import Invented, specs
from tests.dashboards.views.made import made, strictly

STEADY = Invented(noise=0.0, score=lambda spec: 0.8 - 0.02 * spec.freeze.depth)


def test_it_shows_the_share_of_the_quality_of_full_tuning(tmp_path: Path) -> None:
    info = kept.prepare_kept(made(tmp_path / "s", STEADY))
    assert info.table["freeze"].tolist() == ["none", "first 2", "first 4", "all"] * 2
    assert info.table["quality"].tolist() == pytest.approx([100, 95, 90, 85] * 2)


def test_a_baseline_near_chance_has_no_line(tmp_path: Path) -> None:
    """A share of a score of 6 % would be between 50 and 150 % by chance alone."""
    weak = Invented(noise=0.0, score=lambda spec: (0.06 if spec.train_size == 200 else 0.8) - 0.002 * spec.freeze.depth)
    with pytest.raises(EmptyPartError, match="learned its task"):
        kept.prepare_kept(made(tmp_path / "a", weak))
    info = kept.prepare_kept(made(tmp_path / "b", weak, trials=specs(train_sizes=(200, 400, 800))))
    assert [line.rpartition(", ")[2] for line, _ in info.lines] == ["400", "800"]
    assert info.note == "Without 1 question whose baseline is near chance."


def test_with_more_lines_than_one_tells_apart_each_corpus_has_a_panel(tmp_path: Path) -> None:
    sizes = range(100, 600, 100)
    trials = [*specs(train_sizes=sizes), *specs(train_sizes=sizes, data={"name": "b", "fingerprint": "b" * 64})]
    info = kept.prepare_kept(made(tmp_path / "s", STEADY, trials=trials))
    figure = strictly(kept.draw_kept(info, LIGHT))
    assert len(info.lines) == len(figure["data"]) == 10 > kept.MOST_LINES
    by_panel = [trace["xaxis"] for trace in figure["data"]]
    assert {axis: by_panel.count(axis) for axis in by_panel} == {"x": 5, "x2": 5}

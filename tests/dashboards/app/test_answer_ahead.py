"""The answer that the first visit of a dashboard finds made."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.app.app import answer_ahead
from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery, select
from dashboards.views.kit import cards
from orchestrator.store import open_store
from tests.dashboards.stores import Invented, specs, write_store
from trials.spec import TrialSpec


@pytest.mark.parametrize("front", [None, PageQuery(tolerance=3.0)])
def test_what_the_first_page_says_is_computed_before_it_is_asked_for(
    front: PageQuery | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = Frames(write_store(tmp_path / "store", specs(seeds=range(3)), Invented()))
    answer_ahead(frames, front)
    monkeypatch.setattr(cards, "answers", None)  # nothing is computed any more
    assert cards.answers_of_page(select(frames.refresh(), front or PageQuery())).answers


@pytest.mark.parametrize("trials", [[], specs(seeds=(0,))])
def test_of_a_store_without_an_answer_nothing_is_computed_and_nothing_fails(
    trials: list[TrialSpec], tmp_path: Path
) -> None:
    store = open_store(str(tmp_path / "store"), must_exist=False)
    store.create()
    if trials:
        write_store(tmp_path / "store", trials, Invented(state=lambda spec: None))
    answer_ahead(Frames(store))

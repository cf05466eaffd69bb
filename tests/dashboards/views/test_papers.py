"""Published studies on the page Scores: which one is drawn, what stands beside it, and what is not drawn."""

from __future__ import annotations

from pathlib import Path

from plotly.io.json import to_json_plotly

from dashboards.data.frames import Frames
from dashboards.data.page_query import PageQuery
from dashboards.data.selection import Selection, select
from dashboards.views.kit.theme import DARK, LIGHT
from dashboards.views.papers import PAPER, draw, paper_body, prepare_paper
from orchestrator.extras.published.study import load_study
from orchestrator.store import ResultStore
from tests.dashboards.report.paper_stores import study_store
from tests.dashboards.stores import specs, write_store
from tests.dashboards.views.made import drawn


def _of(store: ResultStore, study: str = "") -> Selection:
    return select(Frames(store).refresh(), PageQuery(study=study))


def test_the_study_that_fits_is_drawn_with_the_numbers_of_its_files(tmp_path: Path) -> None:
    store = study_store(tmp_path / "store", "emekaeze_pos")
    info = prepare_paper(_of(store))
    assert (info.study.study, info.refusal) == ("emekaeze_pos", "")
    assert PAPER.table(info).equals(draw(load_study("emekaeze_pos"), store)[1])
    assert "reproduced" in to_json_plotly(paper_body(info, LIGHT))


def test_beside_trials_of_another_corpus_a_study_stands_alone_with_the_command_of_its_sweep(tmp_path: Path) -> None:
    info = prepare_paper(_of(write_store(tmp_path / "store", specs()), study="emekaeze_pos"))
    body = to_json_plotly(paper_body(info, LIGHT))
    assert "emekaeze_pos.yaml" in body
    assert info.refusal in body
    assert not [column for one in info.exhibits if one.figure is None for column in one.table if "ours" in column]


def test_where_no_study_fits_the_page_says_how_to_choose_one(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", specs())
    for study in ("", "off"):
        assert "Published study" in drawn(PAPER, _of(store, study=study)).why_empty


def test_exhibits_have_the_colours_of_the_page(tmp_path: Path) -> None:
    info = prepare_paper(_of(study_store(tmp_path / "store", "emekaeze_pos")))
    for look, other in ((LIGHT, DARK), (DARK, LIGHT)):
        body = to_json_plotly(paper_body(info, look))
        assert look.paper in body
        assert other.paper not in body

"""A study's own tables and figures with ours beside, from stores of made-up trials."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import typer

from dashboards.commands.report import paper
from dashboards.report.write import write_paper
from dashboards.views.papers import DrawnExhibit, draw
from orchestrator.extras.published.study import STUDIES, load_study
from orchestrator.store import open_store
from tests.dashboards.report.paper_stores import study_store
from tests.examples import each

Draw = Callable[[str], dict[str, DrawnExhibit]]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Draw:
    """The exhibits of a study by id, beside a store that fits it."""

    @functools.cache
    def of(study: str) -> dict[str, DrawnExhibit]:
        store = study_store(tmp_path_factory.mktemp(study) / "store", study)
        return {one.exhibit.id: one for one in draw(load_study(study), store)[0]}

    return of


def names(one: DrawnExhibit) -> list[str]:
    assert one.figure is not None
    return [trace["name"] for trace in one.figure["data"]]


@each("study", STUDIES, quick=2)
def test_every_exhibit_is_drawn_without_nan(study: str, drawn: Draw) -> None:
    for one in drawn(study).values():
        assert one.exhibit.is_table == (one.figure is None)
        assert len(one.table)
        assert one.notes
        json.dumps(one.figure, allow_nan=False)


def test_the_single_table_of_study_1_has_theirs_ours_and_verdicts(drawn: Draw) -> None:
    table = drawn("emekaeze_pos")["table_2"].table.set_index("setting")
    assert table["accuracy, theirs (%)"].tolist() == [96.4, 91.6, 96.3, 96.1, 96.2]
    assert table["training time, theirs (s)"].tolist() == [532, 351, 447, 400, 423]
    assert table["parameters, ours (M)"].tolist() == pytest.approx([134.4, 91.8, 120.2, 106.0, 113.1], abs=0.1)
    assert table["accuracy, verdict"].tolist() == ["reproduced"] * 5
    assert table.loc["Baseline", "time saved, verdict"] == ""  # 0 by definition
    assert set(table["seeds"]) == {3}


def test_the_protocols_differences_stand_under_a_table(drawn: Draw) -> None:
    notes = " ".join(drawn("emekaeze_pos")["table_2"].notes)
    assert "cpu instead of 1x NVIDIA T4" in notes
    assert "words cut off by max_length count as errors here" in notes


def test_convergence_has_both_curves_of_a_strategy(drawn: Draw) -> None:
    assert {"Baseline, theirs", "Baseline, ours", "Freeze All, ours"} <= set(names(drawn("emekaeze_pos")["figure_7"]))


def test_study_2_has_the_loss_of_every_step_and_dev_beside_test(drawn: Draw) -> None:
    assert names(drawn("brown_pos")["figures_1_2"]) == ["none, ours, seed 0", "first 3, ours, seed 0"]
    assert names(drawn("brown_pos")["figure_3"]) == ["accuracy, ours", "accuracy on test, ours"]


def test_what_must_not_be_compared_stands_beside_ours_and_cannot_be_told(drawn: Draw) -> None:
    one = drawn("brown_pos")["differences"]
    row = one.table.set_index("setting").loc["Partially frozen"]
    assert row["accuracy, minus baseline, verdict"] == "cannot tell"
    assert any("does not say which corpus" in note for note in one.notes)


def test_study_3_has_lower_and_upper_lines_over_0_to_12_layers(drawn: Draw) -> None:
    figure = drawn("kairatuly_ner")["layers_english"].figure
    assert figure is not None
    lower, upper, *theirs = [trace for trace in figure["data"] if trace["yaxis"] == "y"]
    assert lower["x"] == upper["x"] == list(range(13))
    assert [trace["x"] for trace in theirs] == [[0], [3, 6], [12]]


def test_study_4_has_its_tables_by_size_with_all_five_statistics(drawn: Draw) -> None:
    table = drawn("freezing_bert_glue")["cola_table"].table
    assert list(zip(table["train size"], table["frozen layers"], strict=True))[:2] == [
        (50, "-1 (embeddings only)"), (50, "0 (nothing)"),
    ]  # fmt: skip
    assert len(table) == 35
    ours = table[table["train size"] == 100].iloc[0]
    assert ours["min, ours (%)"] <= ours["median, ours (%)"] <= ours["max, ours (%)"]


def test_cells_without_our_trials_are_empty_and_say_so(drawn: Draw) -> None:
    table = drawn("freezing_bert_glue")["cola_table"].table
    empty = table[table["train size"] == 500]
    assert empty["mean, ours (%)"].isna().all()
    assert set(empty["note"]) == {"no trial of ours"}
    assert set(empty["verdict"]) == {""}
    assert "Ours is empty: no completed trial on GLUE CoLA, 500 train sentences." in " ".join(
        drawn("freezing_bert_glue")["cola_table"].notes
    )


def test_an_empty_store_leaves_theirs(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", must_exist=False)
    exhibits, numbers = draw(load_study("emekaeze_pos"), store)
    assert numbers["ours"].isna().all()
    assert [one.exhibit.id for one in exhibits][:2] == ["table_2", "table_1"]


def test_a_study_without_exhibits_has_a_table_for_each_of_its_results(tmp_path: Path) -> None:
    from orchestrator.extras.published.study import FOLDER, read_study

    text = (FOLDER / "emekaeze_pos.yaml").read_text(encoding="utf-8")
    start, end = text.index("exhibits:\n"), text.index("results:\n")
    (tmp_path / "x.yaml").write_text(text[:start] + text[end:], encoding="utf-8")
    study = read_study(tmp_path / "x.yaml")
    assert [exhibit.groups for exhibit in study.exhibits] == [(group.id,) for group in study.results]


def test_the_command_writes_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study_store(tmp_path / "store", "brown_pos")
    paper("brown_pos", str(tmp_path / "store"), tmp_path / "out", pictures=False)
    assert capsys.readouterr().out.strip() == str((tmp_path / "out" / "paper.html").resolve())
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*")}
    assert {"paper.html", "paper.md", "tables/numbers.csv"} <= written
    assert {f"tables/differences.{kind}" for kind in ("csv", "md", "tex")} <= written
    assert len(pd.read_csv(tmp_path / "out" / "tables" / "numbers.csv", comment="#"))
    assert "Errata of the study" in (tmp_path / "out" / "paper.html").read_text(encoding="utf-8")


def test_an_unknown_study_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit) as error:
        paper("brown", str(tmp_path))
    assert error.value.exit_code == 2


def test_the_same_store_gives_the_same_bytes(tmp_path: Path) -> None:
    store, study = study_store(tmp_path / "store", "brown_pos"), load_study("brown_pos")
    first, second = (write_paper(study, store, tmp_path / name, pictures=False) for name in "ab")
    assert [path.read_bytes() for path in first.files] == [path.read_bytes() for path in second.files]

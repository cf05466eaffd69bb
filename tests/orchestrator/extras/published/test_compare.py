"""The command `compare` on a real store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from orchestrator.config.console import stdout
from orchestrator.extras.published.compare_command import compare, figure, table_rows
from orchestrator.extras.published.comparison import compare_study
from orchestrator.extras.published.study import load_study
from orchestrator.store import open_store
from tests.builders import make_spec
from tests.examples import each
from tests.orchestrator.store.rows import epoch, trial


@pytest.fixture
def store(tmp_path: Path) -> str:
    """One trial on the counts of EWT."""
    data = {"name": "UD_English-EWT", "sizes": (12544, 2001, 2077)}
    spec = make_spec(data=data, train_size=12544, lowercase=True)
    results = open_store(tmp_path / "results", must_exist=False)
    results.append("epochs", [epoch(spec.trial_id, epoch=1.0, accuracy=0.95)])
    results.append("trials", [trial(spec.trial_id, spec=spec.model_dump_json())])
    return str(results.root)


def test_the_terminal_shows_both_numbers_and_what_differs_and_json_holds_everything(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stdout.capture() as captured:
        compare("emekaeze_pos", store)
    text = " ".join(captured.get().split())
    assert "96.40 95.00 cannot tell" in text
    assert "model starter instead of distilbert-base-multilingual-cased" in text
    assert "1 trial compared, from" in text
    compare("emekaeze_pos", store, as_json=True)
    content = json.loads(capsys.readouterr().out)
    (row,) = [row for row in content["numbers"] if row["table"] == "report, table 2"]
    assert (row["ours"], row["published"], row["verdict"]) == (95.0, 96.4, "cannot tell")
    assert content["not_compared"]


def test_a_figure_has_theirs_and_ours_in_percent(store: str, tmp_path: Path) -> None:
    study, results = load_study("emekaeze_pos"), open_store(store)
    comparison = compare_study(study, results.trials().to_pylist(), results.epochs().to_pylist())
    drawn = figure(table_rows(comparison, study), "A study")
    assert drawn is not None
    ours, theirs = drawn["data"][:2]
    assert (ours["x"][0], theirs["x"][0]) == (95.0, 96.4)
    assert figure([], "A study") is None
    compare("emekaeze_pos", store, to=(path := tmp_path / "figure.html"))
    assert "interval in which theirs should lie" in path.read_text(encoding="utf-8")


def test_an_unknown_study_is_a_usage_error(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as error:
        compare("emekaeze", store)
    assert error.value.exit_code == 2
    assert "did you mean 'emekaeze_pos'" in capsys.readouterr().err


def test_without_a_study_all_are_listed_with_what_runs_them(capsys: pytest.CaptureFixture[str]) -> None:
    compare()
    assert "emekaeze_pos: John Emekaeze (2025)." in (text := capsys.readouterr().out)
    assert "permafrost plan NAME" in text


@each(
    "study, reasons",
    [
        ("freezing_bert_glue", ["we have no trial with 50 train items", "we have no trial with 100 train items"]),
        ("brown_pos", ["does not say which corpus it used", "our store has no such metric: accuracy on dev"]),
    ],
)
def test_a_comparison_of_nothing_says_so_first_with_two_reasons_and_ends_with_5(
    study: str, reasons: list[str], store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as error:
        compare(study, store)
    first, _, _ = capsys.readouterr().out.partition("\n")
    assert error.value.exit_code == 5
    assert first.startswith(f"no number of {study} can be compared: ")
    assert [reason in first for reason in reasons] == [True, True]

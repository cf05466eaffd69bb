"""The command `compare` on a real store."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from orchestrator.config.console import stdout
from orchestrator.extras.published.compare_command import compare, figure
from orchestrator.extras.published.comparison import compare_study
from orchestrator.extras.published.study import load_study
from orchestrator.store import open_store
from tests.builders import make_spec
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
    (line,) = [line for side in content["sides"] if side["group"] == "english" for line in side["lines"]]
    assert (line["ours"]["mean"], line["theirs"]["low"]) == (0.95, 0.964)
    assert content["refused"]
    assert len(content["published"]["errata"]) == 12


def test_files_have_a_line_per_number_and_a_figure_with_both_sides(store: str, tmp_path: Path) -> None:
    compare("emekaeze_pos", store, out=tmp_path / "out")
    with (tmp_path / "out" / "numbers.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == "report, table 2" and row["unit"] == "%"]
    (row,) = [row for row in rows if row["metric"].startswith("token accuracy")]
    assert [row[name] for name in ("published", "ours", "ours minus published", "verdict")] == [
        "96.4", "95.0", "-1.4", "cannot tell",
    ]  # fmt: skip
    assert "our corpus" not in row["protocol differences"]
    assert "interval in which theirs should lie" in (tmp_path / "out" / "figure.html").read_text(encoding="utf-8")


def test_a_figure_has_theirs_and_ours_in_percent(store: str) -> None:
    study, results = load_study("emekaeze_pos"), open_store(store)
    comparison = compare_study(study, results.trials().to_pylist(), results.epochs().to_pylist())
    drawn = figure(comparison, study)
    assert drawn is not None
    ours, theirs = drawn["data"][:2]
    assert (ours["x"][0], theirs["x"][0]) == (95.0, 96.4)
    assert figure(replace(comparison, sides=()), study) is None


def test_an_unknown_study_is_a_usage_error(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as error:
        compare("emekaeze", store)
    assert error.value.exit_code == 2
    assert "did you mean 'emekaeze_pos'" in capsys.readouterr().err

"""The command `compare` on a real store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from orchestrator.config.console import stdout
from orchestrator.extras.published.compare_command import compare
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
    assert "95.00 1 96.40 -1.40 cannot tell" in text
    assert "model starter instead of distilbert-base-multilingual-cased" in text
    assert "1 trial compared, from" in text
    compare("emekaeze_pos", store, as_json=True)
    content = json.loads(capsys.readouterr().out)
    (line,) = [line for side in content["sides"] if side["group"] == "english" for line in side["lines"]]
    assert (line["ours"]["mean"], line["theirs"]["low"]) == (0.95, 0.964)
    assert {refusal["reason"] for refusal in content["refusals"]}
    assert len(content["published"]["errata"]) == 12


def test_an_unknown_study_is_a_usage_error(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as error:
        compare("emekaeze", store)
    assert error.value.exit_code == 2
    assert "did you mean 'emekaeze_pos'" in capsys.readouterr().err

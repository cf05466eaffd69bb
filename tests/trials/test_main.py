"""`python -m trials spec.json`: one trial without Ray, records as JSON lines, mistakes with an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import write_treebank
from tests.examples import each
from tests.trials.conftest import TrialMaker
from trials.__main__ import main
from trials.run import run_trial


@pytest.fixture
def draft(tiny_models: dict[str, Path], treebank: Path, tmp_path: Path) -> Path:
    content = {"data": {"folder": str(treebank)}, "model": str(tiny_models["bert"]), "train_size": 8, "max_length": 32}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({**content, "optim": {"lr": 1e-3, "epochs": 2}}))
    return path


def test_it_prints_a_json_line_a_record(
    draft: Path, capsys: pytest.CaptureFixture[str], make_trial: TrialMaker
) -> None:
    assert main([str(draft)]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    spec = make_trial("bert", train_size=8, optim={"lr": 1e-3, "batch_size": 16})
    assert {line["trial_id"] for line in printed} == {spec.trial_id}
    assert [line["step_losses"] for line in printed] == [list(r.step_losses) for r in run_trial(spec)]


@each(
    "content, code, said",
    [
        ("{", 2, "JSON"),
        ('{"data": "bank", "sede": 1}', 2, "sede"),
        ('{"data": "bank", "train_size": 9}', 2, "train_size: 9 is larger than the train split"),
        ('{"data": {"folder": "/nowhere"}}', 3, "no folder /nowhere"),
        ('{"data": "bank", "model": "/nowhere"}', 3, "no model folder at /nowhere"),
    ],
)
def test_a_mistake_is_one_message_and_an_exit_code(
    content: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_treebank(Path("bank"))
    path = tmp_path / "spec.json"
    path.write_text(content)
    assert main([str(path)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: ")
    assert said in err
    assert "Traceback" not in err

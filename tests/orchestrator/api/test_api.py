"""Permafrost from Python: one call from data to an answer, and the calls that the commands make."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator import api
from orchestrator.store import open_store
from tests.examples import each
from tests.small_sweeps import write_bank
from trials.errors import ConfigError, NothingMatchedError

SMALL: dict[str, Any] = {
    "name": "small",
    "trial": {"data": {"folder": "bank"}, "lowercase": True, "optim": {"lr": 1e-3, "head_lr": 1e-2, "epochs": 1}},
    "space": {"freeze": ["none", {"strategy": "all_encoder", "embeddings": True}]},
    "seeds": [0, 1],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bank(tmp_path / "bank", train=24, dev=12, test=6)


def test_a_sweep_is_built_planned_launched_and_answered_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bank").rename("<b>bank")
    content = {**SMALL, "trial": {**SMALL["trial"], "data": {"folder": "<b>bank"}}}
    assert len(api.plan(content).to_run) == 4
    assert not Path("results").exists()
    ended = api.launch(api.Sweep(**content), cluster="inline")
    assert (ended.outcome.completed, ended.exit_code) == (4, 0)
    assert api.launch(content, cluster="inline").outcome.skipped == 4
    answers = api.answer(sweep="small")
    assert [each.sentence for each in ended.answers()] == [each.sentence for each in answers]
    table = api.table(sweep="small")
    assert table.to_pandas()[["freeze", "seeds"]].to_numpy().tolist() == [["none", 2], ["all+E", 2]]
    assert str(table) in str(ended)
    out = CliRunner().invoke(app, ["answer", "--json"])
    assert [each.as_json() for each in answers] == json.loads(out.stdout)
    assert "<b>bank (pos), starter, train size 24" in str(answers)
    assert "&lt;b&gt;bank (pos), starter, train size 24" in ended.answers()._repr_html_()


def test_the_newest_sweep_that_compares_settings_is_answered_not_that_of_a_trained_model() -> None:
    for sweep in (SMALL, {**SMALL, "name": "train-small", "space": {}, "seeds": [0]}):
        api.launch(sweep, cluster="inline", max_trials=1)
    store = open_store("results")
    assert [store.sweep(compares=asked).name for asked in (False, True)] == ["train-small", "small"]
    with pytest.raises(NothingMatchedError, match="has no sweep 'other'; it has "):
        api.answer(sweep="other")


@pytest.mark.parametrize("command", ["choose", "init"])
def test_a_sweep_file_of_somebody_else_is_refused_before_anything_runs(command: str) -> None:
    Path("choose-bank.yaml").write_text("name: choose-bank\n")
    result = CliRunner().invoke(app, [command, "bank"])
    assert (result.exit_code, result.stdout) == (4, "")
    assert re.search(r"^error: \S*choose-bank\.yaml: already exists", result.stderr, re.MULTILINE)
    assert not re.search("pilot|forecast|sweep  ", result.stderr)
    assert Path("choose-bank.yaml").read_text() == "name: choose-bank\n"


def test_a_folder_for_the_model_that_holds_something_is_refused_before_anything_runs() -> None:
    result = CliRunner().invoke(app, ["choose", "bank", "--export", "bank"])
    assert result.exit_code == 4
    assert result.stderr.endswith("error: bank already exists. Choose a new folder with -o.\n")
    assert not Path("choose-bank.yaml").exists()


@each("words", [("--tolerance", "0"), ("--text", "body"), ("--task", "poss"), ("--model", "hub:a/b@")])
def test_an_option_of_choose_that_is_wrong_is_said_before_anything_is_read(words: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["choose", "bank", *words])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


@pytest.mark.slow
def test_what_does_not_end_in_time_uses_a_part_of_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.forecast.pilot.MOST_PILOTS", 1)  # of one shape; the others are told from it
    write_bank(Path("large"), train=800, dev=20, test=10)
    found = api.choose("large", cluster="inline", dry_run=True, max_hours=0.01)
    assert found.plan is not None
    assert (size := found.plan.to_run[0].train_size) < 800
    other = api.choose("large", tolerance=5, cluster="inline", dry_run=True, max_hours=0.01)
    assert other.plan is not None
    assert {spec.trial_id for spec in other.plan.to_run} == {spec.trial_id for spec in found.plan.to_run}, size
    later = api.choose("large", tolerance=5, cluster="inline", dry_run=True, max_hours=9)
    assert later.plan is not None
    assert {spec.train_size for spec in later.plan.to_run} == {800}


@pytest.mark.slow
def test_one_command_goes_from_a_folder_to_an_answer_and_a_model_of_all_of_train() -> None:
    """Of sentences without documents: the four of its dev sentences are too few for narrow intervals."""
    dev = Path("bank/dev.conllu").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("bank/dev.conllu").write_text("".join(line for line in dev if line[0] != "#"), encoding="utf-8")
    words = ["choose", "bank", "--cluster", "inline", "--tolerance", "30", "--export", "model", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["answers"][0]["freeze"] == "first 6+E"
    assert json.loads(Path("model/config.json").read_text())["model_type"]
    assert "seed 0" in (card := Path("model/README.md").read_text()) or "seed 1" in card or "seed 2" in card
    again = CliRunner().invoke(app, [*words[:-3], "--json"])
    assert json.loads(again.stdout)["outcome"]["skipped"] >= 3
    followed = CliRunner().invoke(app, shlex.split(json.loads(again.stdout)["next"][0]["command"])[1:])
    assert followed.exit_code == 0, followed.output
    assert Path("bank-model/model.safetensors").exists()


@pytest.mark.slow
def test_a_named_setting_is_trained_under_several_seeds_on_train_and_dev_and_all_are_exported() -> None:
    """Nothing is recommended after one seed, which the error says."""
    api.launch(
        {**SMALL, "seeds": [3], "space": {"freeze": ["none", {"strategy": "first_k", "depth": 2, "embeddings": True}]}},
        cluster="inline",
    )
    with pytest.raises(ConfigError, match=r"nothing is recommended yet.*freeze names a setting \(none, first 2\+E\)"):
        api.train("models", cluster="inline")
    found = api.train("models", freeze="first 2", seeds=2, keep="all", with_dev=True, cluster="inline")
    assert [each.folder for each in found.seeds] == [Path(f"models/seed-{n}").resolve() for n in (3, 0)]
    (spec, *_) = open_store("results").sweep("train-small").specs
    assert spec.data.sizes is not None
    assert sum(spec.data.sizes[:2]) == 36  # 24 of train and 12 of dev
    assert 24 < spec.train_size == spec.data.sizes[0] < 36

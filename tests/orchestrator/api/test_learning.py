"""A baseline that has not learned: what `choose` tries by itself, and where it looks for its question again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.own_data.question import SweepFile
from orchestrator.store import open_store
from orchestrator.store.plans import is_beside
from tests.small_sweeps import write_bank


def test_what_was_made_beside_a_question_is_none_and_a_name_that_only_looks_so_is_one() -> None:
    sweeps = ["choose-bank", "baseline-bank", "rates-bank", "train-bank", "train-size"]
    assert [name for name in sweeps if is_beside(name, sweeps)] == ["baseline-bank", "rates-bank", "train-bank"]


@pytest.mark.slow
def test_a_baseline_that_does_not_learn_is_asked_about_first_and_longer_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that say nothing are never learned; the curve is not run for them."""
    monkeypatch.chdir(tmp_path)
    rows = [f"text {n % 7} of {n},{'yes' if n * n % 5 % 2 else 'no'}" for n in range(60)]
    Path("coin.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    words = ("choose", "coin.csv", "--max-hours", "0.02", "--cluster", "inline", "--export", "best", "--json")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (answer,) = json.loads(done.stdout)["answers"] or [{"headline": "Not learned"}]
    assert answer["headline"] == "Not learned"
    assert "the baseline has not learned the task" in done.stderr
    assert "; trying 15 epochs" in done.stderr
    assert done.stderr.count("if losses vary as in FreezeBench") == 1
    steps = json.loads(done.stdout)["next"]
    assert not [step for step in steps if "--held-out" in step["command"]]
    goes_on = [step for step in steps if "tries what else may help" in step["brings"]]
    assert bool(goes_on) != (", whatever was tried" in done.stderr)
    assert "model   nothing is exported" in done.stderr
    store = open_store("results")
    assert {spec.freeze.label for plan in store.sweeps() for spec in plan.specs if "baseline-" in plan.name} == {"none"}
    assert store.sweep(compares=True).name == "choose-coin"


@pytest.mark.slow
def test_a_dry_run_lists_the_rates_and_leaves_them_to_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bank(Path("bank"), train=24, dev=12, test=8)
    words = ("choose", "bank", "--rates", "1e-4,1e-3", "--tolerance", "60", "--cluster", "inline", "--max-hours", "0.5")
    dry = CliRunner().invoke(app, [*words, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert "rates   0.0001, 0.001 would be tried first, in " in dry.stderr
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert "rates   trying 0.0001, 0.001 in " in done.stderr
    again = CliRunner().invoke(app, [*words, "--json"])
    assert "rates   trying" not in again.stderr
    assert ": best on dev, on seeds that the answer does not use" in again.stderr
    file = SweepFile(Path("choose-bank.yaml"))
    assert (file.train_size(), file.part(), file.epochs()) == (None, None, 3)

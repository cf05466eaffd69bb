"""A sweep file means the same files whichever folder it is launched from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import write_question
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.builders import write_sweep
from tests.small_sweeps import write_bank
from tests.trials.conftest import save_tiny_model
from trials.draft import Lookup


@pytest.fixture(autouse=True)
def _bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bank(tmp_path / "bank", train=30, dev=2, test=1)


def read_from(sweep: Path, *settings: str) -> set[str]:
    """The folder of the train split of every corpus and of every model but the starter."""
    trials = expand(*load_sweep(sweep, list(settings)), Lookup(offline=True))
    return {spec.data.train[0] for spec in trials} | {
        spec.model.path for spec in trials if spec.model.name != "starter"
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"data": "bank"},
        {"data": "bank/train.conllu", "model": "tiny", "out": "sweeps/mine"},
    ],
    ids=["folder", "file and model"],
)
def test_what_init_wrote_names_itself_and_runs_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    save_tiny_model("distilbert", tmp_path / "tiny", positions=128)
    path = tmp_path / write_question(ChooseOptions(**asked, offline=True), Lookup(offline=True), lambda line: None)
    expected = {str(tmp_path / "bank/train.conllu")} | ({str(tmp_path / "tiny")} if "model" in asked else set())
    for folder in (tmp_path, path.parent, Path("/")):
        monkeypatch.chdir(folder)
        assert read_from(path) == expected
    assert path.read_text().startswith("# Made by: permafrost init ")


def test_paths_are_those_beside_the_file_else_of_the_working_folder_and_options_always_of_that(tmp_path: Path) -> None:
    write_bank(tmp_path / "sub/bank", train=3, dev=2, test=1)
    write_bank(tmp_path / "other", train=5, dev=2, test=1)
    text = "name: s\nspace:\n  data: [bank, {folder: other}]\n"
    sweep = write_sweep(tmp_path / "sub/s.yaml", text)
    assert read_from(sweep) == {str(tmp_path / f"{name}/train.conllu") for name in ("sub/bank", "other")}
    assert read_from(sweep, "space.data=[bank]") == {str(tmp_path / "bank/train.conllu")}

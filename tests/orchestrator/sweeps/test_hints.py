"""A setting that is not valid is answered with the line that was meant, and that line is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.config.yaml_document import Document
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.builders import write_sweep, write_treebank
from tests.examples import each
from trials.draft import Lookup
from trials.errors import ConfigError

MEANT = {
    "seeds: 3": "seeds: [0, 1, 2]",
    "trial: {train_size: [50, 100]}": "space: {train_size: [50, 100]}",
    "trial: {optim: {lr: [0.1, 0.2]}}": "space: {optim.lr: [0.1, 0.2]}",
    "space: {freeze: [none, {strategy: first_k, depth: [1, 2]}]}": "depth: {choice: [1, 2]}",
    "lr: 0.1": "trial.optim.lr",
    "trial: {lr: 0.1}": "trial.optim.lr",
    "space: {lr: [0.1]}": "space: {optim.lr: [...]}",
    "epochs: 3": "trial.optim.epochs",
    "train_size: 50": "trial.train_size",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"data: {write_treebank(tmp_path_factory.mktemp('data') / 'tiny', train=100)}, model: starter"


def with_data(text: str, data: str) -> str:
    return text.replace("trial: {", f"trial: {{{data}, ") if "trial: {" in text else f"{text}\ntrial: {{{data}}}"


@each("written, meant", MEANT.items())
def test_the_line_that_was_meant_stands_in_the_error(tmp_path: Path, data: str, written: str, meant: str) -> None:
    path = write_sweep(tmp_path / "s.yaml", with_data(written, data))
    with pytest.raises(ConfigError) as raised:
        expand(*load_sweep(path, []), Lookup(offline=True))
    assert str(raised.value).endswith(f"`{meant}`.")


@pytest.mark.parametrize("line", [meant for meant in MEANT.values() if meant.startswith(("seeds", "space: {train"))])
def test_that_line_is_valid(tmp_path: Path, data: str, line: str) -> None:
    path = write_sweep(tmp_path / "s.yaml", with_data(line, data))
    assert len(expand(*load_sweep(path, []), Lookup(offline=True))) == line.count(",") + 1
    assert Document.read(path)


@each("seeds", ["true", "0", "-1", "1.5", "1000000"])
def test_nothing_is_proposed_for_what_can_mean_no_seeds(tmp_path: Path, data: str, seeds: str) -> None:
    with pytest.raises(ConfigError, match=r"must be a list$"):
        load_sweep(write_sweep(tmp_path / "s.yaml", with_data(f"seeds: {seeds}", data)), [])

"""What is asked for by name is looked up before where it goes: the exit code does not depend on what lies there."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.commands.app import COMMANDS
from tests.builders import write_treebank
from tests.dashboards.stores import specs, write_store
from tests.examples import each


def offered(words: tuple[str, ...]) -> bool:
    """Whether there is such a command: the extra that it is of may have been deleted."""
    return bool({words[0], " ".join(words[:2])} & set(COMMANDS))


UNKNOWN = [
    (("report", "--sweep", "nothing", "-o", "out"), 5),
    (("export", "figure", "nothing", "-o", "out"), 2),
    (("compare", "--study", "nothing", "-o", "out"), 2),
    (("export", "model", "--trial", "nothing", "-o", "out"), 5),
    (("export", "runs", "--to", "tensorboard", "--sweep", "nothing"), 5),
    (("choose", "nothing", "--out", "out"), 3),
    (("choose", "bank", "--model", "nothing", "--export", "out"), 3),
    (("init", "bank", "--model", "nothing", "--out", "out"), 3),
]
NO_STORE = [
    ("report", "--sweep", "starter", "-o", "out"),
    ("export", "figure", "depth-strip", "-o", "out"),
    ("compare", "--study", "emekaeze_pos", "-o", "out"),
    ("export", "model", "--trial", "9f2c", "-o", "out"),
    ("export", "runs", "--to", "tensorboard", "--into", "out"),
    ("export", "tables", "out"),
]
WITHOUT_STORE = ("init",)


def in_the_way(what: str) -> None:
    """Put a thing where the commands would write."""
    names = ("choose-nothing.yaml", "choose-bank.yaml", "trials.csv", "notes.md")
    if what == "file":
        Path("out").write_text("mine")
    else:
        for folder in (Path("out"), Path()):
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                (folder / name).write_text("name: mine\n")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("store") / "store", specs(seeds=(0,), train_sizes=(200,))).root


@each("what", ["file", "folder"])
@each("words, code", [row for row in UNKNOWN if offered(row[0])])
def test_an_unknown_name_has_its_exit_code_whatever_lies_there(
    words: tuple[str, ...], code: int, what: str, store: Path
) -> None:
    write_treebank(Path("bank"))
    in_the_way(what)
    given = () if words[0] in WITHOUT_STORE else ("--store", str(store))
    done = CliRunner().invoke(app, [*words, *given])
    assert done.exit_code == code, done.output


@each("what", ["file", "folder"])
@each("words", filter(offered, NO_STORE))
def test_a_store_that_is_not_there_comes_before_where_it_goes(words: tuple[str, ...], what: str) -> None:
    in_the_way(what)
    assert CliRunner().invoke(app, [*words, "--store", "no-store"]).exit_code == 3

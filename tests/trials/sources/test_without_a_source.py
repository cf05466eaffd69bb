"""A source of corpora or models is a boundary: without its files, in a copy of the tree, all else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.copies import COMMAND, SWEEP, copied, run
from tests.examples import each

HUB = ("places/hub_dataset.py", "places/hub_model.py")
TREEBANKS = ("places/treebank.py",)


def without(tree: Path, files: tuple[str, ...]) -> Path:
    copied(tree)
    for file in files:
        (tree / "trials" / "sources" / file).unlink()
    return tree


def refusal(tree: Path, **trial: str) -> list[str]:
    """What is said of a trial that needs a source which is not there, and that it ends with 2 or 3."""
    content = "\n".join(f"  {key}: {value}" for key, value in {"data": "UD_English-EWT-sample", **trial}.items())
    (tree / "other.yaml").write_text(f"name: other\ntrial:\n{content}\nspace: {{freeze: [none]}}\n", encoding="utf-8")
    done = run(tree, "-c", COMMAND, "plan", "--sweep", "other.yaml", "--store", "results")
    assert done.returncode in (2, 3), done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("error")]


@each(
    "files, trial, words",
    [
        (HUB, {"data": "nyu-mll/glue/sst2"}, "no folder"),
        (TREEBANKS, {"data": "{ud: UD_English-EWT, release: '2.16'}"}, "unknown 'ud'"),
        (HUB, {"model": "hub:distilbert/distilbert-base-cased"}, "no model folder"),
    ],
    quick=1,
)
def test_what_needs_a_source_that_is_not_there_is_refused_in_one_line(
    files: tuple[str, ...], trial: dict[str, str], words: str, tmp_path: Path
) -> None:
    (line,) = refusal(without(tmp_path, files), **trial)
    assert words in line


@pytest.mark.slow
@pytest.mark.parametrize("files", [HUB, TREEBANKS], ids=["hub", "treebanks"])
def test_a_sweep_runs_without_a_source(files: tuple[str, ...], tmp_path: Path) -> None:
    tree = without(tmp_path, files)
    (tree / "s.yaml").write_text(SWEEP, encoding="utf-8")
    done = run(tree, "-c", COMMAND, *["launch", "--sweep", "s.yaml", "--store", "results", "--cluster", "inline"])
    assert done.returncode == 0, done.stderr
    assert "4 trials, 4 completed" in run(tree, "-m", "orchestrator.status", "--store", "results").stdout

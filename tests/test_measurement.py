"""A measurement is written in two files, `trials/record.py` and `trials/run.py`; every surface follows from them."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from trials.record import ACCRUED

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "trials", "dashboards")


def inserted(path: Path, line: str, text: str, *, after: bool = False) -> None:
    """Writes text before or after the only line that has these words, as far to the right."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (place,) = (n for n, each in enumerate(lines) if line in each)
    text = textwrap.indent(textwrap.dedent(text), " " * (len(lines[place]) - len(lines[place].lstrip())))
    path.unlink()  # a link to ours
    path.write_text("".join([*lines[: place + after], text, *lines[place + after :]]), encoding="utf-8")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What `measurement_walk` says in a tree of links with the measurement of CONTRIBUTING.md."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("orchestrator", "dashboards", "tests"):
        (tree / name).symlink_to(ROOT / name)
    (tree / "trials").mkdir()
    for path in (ROOT / "trials").iterdir():
        (tree / "trials" / path.name).symlink_to(path)
    (example,) = re.findall(r"```py\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    field, before, after = re.split(r"# trials/.*\n", example)[1:]
    inserted(tree / "trials" / "record.py", "def with_placement(", f"{field.rstrip()}\n\n")
    inserted(tree / "trials" / "run.py", "state.dropout.use():", before)
    inserted(tree / "trials" / "run.py", "state.accrue(", after, after=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.measurement_walk", str(tree)], cwd=tree, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tree)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_it_is_stored_at_each_evaluation_and_added_up_by_trial(shown: Any) -> None:
    assert len(shown["epochs"]) == 2
    assert min(shown["epochs"]) > 0
    assert shown["trial"] == pytest.approx(sum(shown["epochs"]))
    assert all("CPU seconds" in about for about in shown["dictionary"])


@pytest.mark.slow
def test_status_and_the_pages_show_it(shown: Any) -> None:
    assert shown["trial"] in shown["status"]
    assert shown["page"]


@pytest.mark.slow
def test_what_freezing_saves_of_it_is_paired_by_seed(shown: Any) -> None:
    frozen, baseline = shown["trials"]
    mean, saved = shown["costs"]
    ratio = math.sqrt(math.prod(frozen) / math.prod(baseline))
    assert mean == pytest.approx(sum(frozen) / 2, abs=1e-4)
    assert saved == pytest.approx(100 * (1 - ratio), abs=1e-2)


@pytest.mark.slow
def test_it_goes_on_after_an_interruption(shown: Any) -> None:
    first, *again = shown["resumed"]
    assert again[0] == first
    assert len(again) == 2
    assert again[1] > 0


def test_a_column_is_named_where_it_is_declared_and_measured_and_nowhere_else() -> None:
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    for column in ACCRUED:
        named = [path.relative_to(ROOT).as_posix() for path in sources if column in path.read_text(encoding="utf-8")]
        assert sorted(named) == ["trials/record.py", "trials/run.py"]

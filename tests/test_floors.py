"""The floor plan as numbers; `make lint` holds the layers and that no modules import each other in a circle."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.tasks import TASKS

ROOT = Path(__file__).parents[1]
LOOSE = {"orchestrator": 2, "trials": 11, "dashboards": 2}  # users import `dashboards.notebook`
SHARED = {"__init__", "spec", "errors"}


@pytest.mark.parametrize("root", LOOSE)
def test_only_entry_points_and_contracts_lie_loose(root: str) -> None:
    assert len([path for path in (ROOT / root).glob("*.py") if path.stem != "__init__"]) <= LOOSE[root]


@pytest.mark.parametrize("root", LOOSE)
def test_no_two_modules_of_a_root_have_one_name(root: str) -> None:
    stems = [path.stem for path in (ROOT / root).rglob("*.py") if path.stem not in SHARED]
    assert sorted({stem for stem in stems if stems.count(stem) > 1}) == []


@cache
def texts() -> dict[str, str]:
    """Every module, by its path."""
    paths = [path for root in LOOSE for path in (ROOT / root).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


NAMES = {*TASKS, *FREEZE_STRATEGIES} - {"none"}  # which is a word of many lists
# A corpus may have a column called `pos`, whatever its task.
OWNERS = ("trials/tasks/", "trials/freeze/", "trials/corpora/", "orchestrator/own_data/task_guess.py")


def test_only_tasks_and_strategies_know_their_names() -> None:
    """Whoever else compares with one asks for a name where it should ask the task or the freeze."""
    found = []
    for place, text in texts().items():
        if place.startswith(OWNERS) or not any(f'"{name}"' in text for name in NAMES):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Compare):
                compared = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                found += [f"{place}:{node.lineno}"] * bool(compared & NAMES)
    assert found == []


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for place, text in texts().items():
        for name in re.findall(r"^ *class (\w+)[(:]", text, re.MULTILINE):
            places[name].append(place)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}

"""The floor plan as numbers; `make lint` holds the layers and that no modules import each other in a circle."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

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


def test_no_two_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path in (path for root in LOOSE for path in (ROOT / root).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}

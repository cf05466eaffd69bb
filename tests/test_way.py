"""What ARCHITECTURE.md says of a launch is what happens: its loop, and the way of a setting through it."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import CodeType, FrameType
from typing import Any

from orchestrator.session.launch_loop import TrialLoop
from tests.small_sweeps import POS, launched, write_bank

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
STATIONS = re.findall(r"^\| \d+ \| `([\w.]+)` \|", PAGE, re.MULTILINE)
SIZE = 23  # as no other number of the sweep


def code_of(station: str) -> CodeType:
    """The code of a function or method, or of a class's `__init__`."""
    module, *names = station.split(".")
    found: Any = import_module(module)
    while names:
        name = names.pop(0)
        module = f"{module}.{name}"
        found = getattr(found, name) if hasattr(found, name) else import_module(module)
    code: CodeType = vars(found)["__init__"].__code__ if isinstance(found, type) else found.__code__
    return code


def holds(value: Any, depth: int = 3) -> bool:
    """Whether a value is the size, or has it among its fields or items."""
    if isinstance(value, int | float):
        return value == SIZE
    if type(value).__module__.split(".")[0] in ("numpy", "pandas", "torch") or depth == 0:
        return hasattr(value, "__len__") and len(value) == SIZE  # a subset of that size
    if isinstance(value, str | Path):
        return f"train_size: {SIZE}" in (
            value.read_text() if isinstance(value, Path) and value.is_file() else str(value)
        )
    parts = value if isinstance(value, list | tuple) else value.values() if isinstance(value, dict) else [value]
    if parts == [value]:
        parts = [getattr(value, name, None) for name in ("train_size", "trial", "trials")]
    return any(holds(part, depth - 1) for part in list(parts)[:20])


def test_a_setting_goes_from_the_sweep_file_to_the_answer_by_the_stations_that_are_listed(tmp_path: Path) -> None:
    assert 6 <= len(STATIONS) <= 12
    stations = {code_of(station): station for station in STATIONS}
    write_bank(tmp_path / "bank", train=24, dev=8, test=8)
    entered: dict[str, bool] = {}

    def follow(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in stations:
            entered.setdefault(stations[frame.f_code], any(map(holds, frame.f_locals.values())))

    sys.setprofile(follow)
    try:
        launched(tmp_path, POS.replace("trial:", f"trial:\n  train_size: {SIZE}"))
    finally:
        sys.setprofile(None)
    assert list(entered) == STATIONS
    assert all(entered.values()), entered


def test_the_loop_that_is_shown_is_the_one_that_runs() -> None:
    assert dedent(inspect.getsource(TrialLoop.run)) in PAGE


def test_every_folder_has_a_row_and_what_to_begin_with_is_there() -> None:
    table = PAGE.partition("## Where things are")[2].partition("## To add")[0]
    packages = {
        path.parent for root in ("trials", "orchestrator", "dashboards") for path in ROOT.glob(f"{root}/*/__init__.py")
    }
    assert {package.name for package in packages} - {"starter"} - set(re.findall(r"`(\w+)`", table)) == set()
    named = {Path(name).name for name in re.findall(r"`([\w/]+\.py)`", table)}
    assert (
        named - {path.name for root in ("trials", "orchestrator", "dashboards") for path in (ROOT / root).rglob("*.py")}
        == set()
    )

"""The GPU run works on a CPU, on a machine that lacks nearly everything, and loses nothing when a part dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.examples import each
from tests.lab.gpu.bare import pydantic as stand_in
from tests.lab.gpu.cards import published_flops
from tests.lab.gpu.results import Record, read_json, table
from tests.lab.gpu.runner import BUDGETS_S, MOST_S, run_part
from tests.lab.gpu.workers import workers
from trials.settings import OptimSpec

ROOT = Path(__file__).parents[3]
ABSENT = (
    "accelerate", "conllu", "dash", "dash_ag_grid", "datasets", "duckdb", "flask", "kaleido", "optuna", "pandas",
    "peft", "plotly", "pyarrow", "pydantic", "pydantic_core", "ray", "rich", "sklearn", "statsmodels",
    "tornado", "typer",
)  # fmt: skip
# Imports as on a machine without the packages: their modules and their metadata are not found in site-packages.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if path is None and name in ABSENT:
            return PathFinder.find_spec(name, [entry for entry in sys.path if "site-packages" not in entry])
        return self.finder.find_spec(name, path, target)

    def find_distributions(self, context):
        is_absent = (context.name or "").replace("-", "_") in ABSENT
        return [] if is_absent else getattr(self.finder, "find_distributions", lambda context: [])(context)

    def invalidate_caches(self):
        getattr(self.finder, "invalidate_caches", lambda: None)()

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def run(out: Path, *options: str, absent: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """`python -m tests.lab.gpu --rehearse`, on a machine without some packages."""
    site = out.parent / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(f"ABSENT = {absent}{WITHOUT}" if absent else "", encoding="utf-8")
    command = [sys.executable, "-m", "tests.lab.gpu", "--out", str(out), "--rehearse", *options]
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, env=environment)


@pytest.mark.slow
def test_a_part_writes_json_and_the_summary_holds_it(tmp_path: Path) -> None:
    done = run(tmp_path / "out", "--only", "energy", absent=ABSENT)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert list(summary["parts"]) == ["machine", "energy"]
    assert summary["parts"]["energy"] == read_json(tmp_path / "out" / "energy.json")
    assert summary["parts"]["machine"]["figures"]["packages"]["ray"] is None
    assert [line.split()[:2] for line in done.stdout.splitlines() if line[0] != " "] == [
        ["machine", "done"],
        ["energy", "done"],
    ]


@pytest.mark.slow
def test_the_rehearsal_runs_every_part_where_there_are_only_torch_and_transformers(tmp_path: Path) -> None:
    done = run(tmp_path / "out", absent=ABSENT)
    parts = read_json(tmp_path / "out" / "summary.json")["parts"]
    assert {name: part["status"] for name, part in parts.items()} == dict.fromkeys(BUDGETS_S, "done"), done.stderr
    assert all(check["holds"] for part in parts.values() for check in part["checks"])
    assert done.returncode == 0


def test_what_cannot_be_done_without_is_said_in_one_line(tmp_path: Path) -> None:
    done = run(tmp_path / "out", absent=("transformers", "yaml"))
    assert done.returncode == 2
    assert done.stderr == (
        "missing: transformers, yaml. Where there is a network: python -m pip download -d wheels transformers pyyaml; "
        "here: python -m pip install --no-index --find-links wheels transformers pyyaml\n"
    )


@pytest.mark.slow
def test_a_part_that_needs_what_is_absent_is_skipped_with_its_reason(tmp_path: Path) -> None:
    run(tmp_path / "out", "--only", "peak_memory", absent=("scipy",))
    part = read_json(tmp_path / "out" / "peak_memory.json")
    assert (part["status"], part["reason"]) == ("skipped", "needs scipy, which is not installed here")


@pytest.mark.parametrize(
    ("code", "budget_s", "status", "reason"),
    [
        pytest.param("os._exit(3)", 100.0, "failed", "its process ended with exit code 3", marks=pytest.mark.slow),
        pytest.param(
            "raise RuntimeError('no kernel')", 100.0, "failed", "RuntimeError: no kernel", marks=pytest.mark.slow
        ),
        ("time.sleep(600)", 0.1, "cut", "it took longer than its 0 s"),
    ],
    ids=["dies", "raises", "hangs"],
)
def test_how_a_part_ends_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, budget_s: float, status: str, reason: str
) -> None:
    (tmp_path / "some_parts").mkdir()
    body = f"import os, time\ndef run(context, record):\n    record.note(before=1)\n    {code}\n"
    (tmp_path / "some_parts" / "one.py").write_text(body, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    part = run_part(spawn, tmp_path, tmp_path, "one", budget_s, rehearse=True, package="some_parts")
    assert (part["status"], part["reason"]) == (status, reason)
    assert part == read_json(tmp_path / "one.json")
    assert part["figures"].get("before") == (None if status == "cut" else 1)


def test_all_parts_together_end_before_nine_minutes() -> None:
    assert sum(BUDGETS_S.values()) <= MOST_S < 540


# --- Results


def test_every_figure_is_on_disk_at_once(tmp_path: Path) -> None:
    record = Record(tmp_path / "part.json")
    record.note(step_s=0.5)
    record.check("seconds", 2.0, 1.0, goal=True)
    record.check("distance", float("nan"), 1.0)
    found = read_json(tmp_path / "part.json")
    assert found["figures"] == {"step_s": 0.5}
    assert [check["holds"] for check in found["checks"]] == [False, False]


def test_the_table_tells_missed_goals_from_broken_claims(tmp_path: Path) -> None:
    record = Record(tmp_path / "part.json")
    for measured, goal in ((0.5, False), (2.0, True), (2.0, False), (None, True)):
        record.check("a claim", measured, 1.0, goal=goal)
    lines = table({"part": {"status": "done", "reason": None, "seconds": 1.0, "checks": record.checks}}).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["holds", "missed", "BROKEN", "missed"]
    assert lines[4].endswith("a claim: not measured, at most 1")


@each(
    "name, tera",
    [("NVIDIA H100 80GB HBM3", 989.5), ("NVIDIA H100 PCIe", 756.5), ("NVIDIA H200", 989.5), ("NVIDIA T4", None)],
)
def test_a_card_is_known_by_its_name(name: str, tera: float | None) -> None:
    assert published_flops(name) == (None if tera is None else tera * 1e12)


# --- Processes


def square(number: int) -> dict[str, Any]:
    return {"square": number**2}


def meet(start: Any) -> dict[str, Any]:
    ready = time.monotonic()
    start()
    return {"ready": ready, "went": time.monotonic()}


def die() -> dict[str, Any]:
    os._exit(3)


def wait_long() -> dict[str, Any]:
    time.sleep(600)
    return {}


@pytest.mark.slow  # processes that import torch
def test_results_are_in_the_order_of_the_jobs() -> None:
    with workers(2) as pool:
        found = pool.run([(square, {"number": n}) for n in range(5)], seconds=60)
        assert found == [{"square": n**2} for n in range(5)]
        both = [result for result in pool.run([(meet, {})] * 2, seconds=60, together=True) if result is not None]
    assert max(result["ready"] for result in both) <= min(result["went"] for result in both)


@pytest.mark.slow  # processes that import torch
def test_a_process_that_dies_is_an_error_and_one_that_hangs_is_ended() -> None:
    with workers(1) as pool, pytest.raises(RuntimeError, match="a worker process died"):
        pool.run([(die, {})], seconds=60)
    with workers(1) as pool:
        assert pool.run([(wait_long, {})], seconds=0.5) == [None]


# --- The stand-in for pydantic


@pytest.mark.slow
def test_the_stand_in_gives_the_trials_of_the_real_one(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from tests.lab.gpu.workload import Workload\n"
        "work = Workload(pathlib.Path(sys.argv[1]), True)\n"
        "print([(s.trial_id, s.cell_id, s.model_dump(mode='json')) for s in [*work.study1(), *work.study4(32)]])\n"
    )
    found = []
    for path in ([ROOT / "tests" / "lab" / "gpu" / "bare", ROOT], [ROOT]):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
        command = [sys.executable, "-c", code, str(tmp_path)]
        found.append(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment))
    assert found[0].stdout == found[1].stdout
    assert len(found[0].stdout) > 10_000


def test_the_stand_in_refuses_an_unknown_key_and_a_change() -> None:
    class Rate(stand_in.BaseModel):
        model_config = {"extra": "forbid"}
        lr: float

    assert Rate(lr=1).model_dump() == {"lr": 1.0}
    with pytest.raises(stand_in.ValidationError, match="unknown typo"):
        Rate(lr=1, typo=2)
    with pytest.raises(stand_in.ValidationError, match="is frozen"):
        Rate(lr=1).lr = 2.0
    assert isinstance(OptimSpec(), stand_in.BaseModel) is False

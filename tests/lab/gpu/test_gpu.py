"""The GPU run works on a CPU, on a machine that lacks nearly everything, and loses nothing when a part dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.examples import each
from tests.lab.gpu import carry
from tests.lab.gpu.__main__ import exit_code
from tests.lab.gpu.bare_machine import bare_machine
from tests.lab.gpu.cards import published_flops
from tests.lab.gpu.carry import HERE, MACHINE, PACKAGES, pinned_versions
from tests.lab.gpu.gradients import step_gradient
from tests.lab.gpu.launches import is_an_end, launch, variables_for
from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.parts import exactness
from tests.lab.gpu.parts.product import SCORES
from tests.lab.gpu.results import Record, read_json, table
from tests.lab.gpu.runner import BUDGETS_S, MOST_S, run_part
from tests.lab.gpu.workers import workers
from tests.lab.gpu.workload import changed
from trials.draft import Lookup
from trials.training.gradient_check import checked_mode

dropout_module = torch.nn.Dropout
ROOT = Path(__file__).parents[3]
WITHOUT_RAY = (*MACHINE, *(name for name in PACKAGES if name != "ray"))


def rehearse(python: Path, variables: dict[str, str], out: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    """`python -m tests.lab.gpu --rehearse` with these parts."""
    words = [word for part in parts for word in ("--only", part)]
    command = [str(python), "-m", "tests.lab.gpu", "--out", str(out), "--rehearse", *words]
    environment = variables | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def without_ray(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A machine with torch, transformers and what is carried there, but for Ray and our own metadata."""
    return bare_machine(tmp_path_factory.mktemp("bare") / "machine", WITHOUT_RAY)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_product_is_launched_stopped_resumed_and_harmed_where_there_is_no_ray(
    without_ray: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    done = rehearse(*without_ray, tmp_path / "out", "product")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    part = summary["parts"]["product"]
    assert part == read_json(tmp_path / "out" / "product.json")
    assert [check for check in part["checks"] if not check["holds"]] == []
    assert (done.returncode, part["status"], part["figures"]["ray"]) == (0, "done", False), done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_rehearsal_runs_every_other_part_there(without_ray: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    names = [name for name in BUDGETS_S if name != "product"]
    done = rehearse(*without_ray, tmp_path / "out", *names)
    parts = read_json(tmp_path / "out" / "summary.json")["parts"]
    assert {name: part["status"] for name, part in parts.items()} == dict.fromkeys(names, "done"), done.stderr
    assert [check for part in parts.values() for check in part["checks"] if not check["holds"]] == []
    assert done.returncode == 0


def test_a_machine_that_lacks_what_is_needed_is_told_how_to_get_it(tmp_path: Path) -> None:
    python, variables = bare_machine(tmp_path / "machine", ("numpy", "pyyaml", "packaging"))
    done = rehearse(python, variables, tmp_path / "out")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("missing: torch, transformers, ")
    assert f"python -m tests.lab.gpu --carry DIR --python {HERE}" in done.stderr


@each("status, holds, is_goal, code", [
    ("done", True, False, 0), ("done", False, True, 0), ("done", False, False, 1),
    ("skipped", True, False, 1), ("cut", True, False, 1), ("not run", True, False, 1), ("failed", True, False, 1),
])  # fmt: skip
def test_a_part_that_was_not_done_or_a_claim_that_does_not_hold_is_no_success(
    status: str, holds: bool, is_goal: bool, code: int
) -> None:
    assert exit_code({"one": {"status": status, "checks": [{"holds": holds, "is_goal": is_goal}]}}) == code


@pytest.mark.parametrize(
    ("code", "budget_s", "status", "reason"),
    [
        ("os._exit(3)", 100.0, "failed", "its process ended with exit code 3"),
        ("raise RuntimeError('no kernel')", 100.0, "failed", "RuntimeError: no kernel"),
        ("import no_such_package", 100.0, "skipped", "needs no_such_package, which is not installed here"),
        ("time.sleep(600)", 0.1, "cut", "it took longer than its 0 s"),
    ],
    ids=["dies", "raises", "lacks", "hangs"],
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
    assert status == "cut" or part["figures"]["before"] == 1


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


# --- The product


def test_the_cpus_scores_are_of_the_starters_trials() -> None:
    declared, document = load_sweep(ROOT / "configs" / "sweeps" / "starter.yaml", ["seeds=[0,1]"])
    planned = {spec.trial_id for spec in expand(declared, document, Lookup(offline=True))}
    assert read_json(SCORES)["trials"].keys() == planned


@each("line, ends", [
    ("3/28 completed UD_Naija_none_n400_s0_0faf53  accuracy 93.27  ETA 29 s", True),
    ("1/2 failed    UD_English_none_n400_s1_52c157  RuntimeError: CUDA error", True),
    ("trials  28 = 14 settings x 2 seeds; 0 complete in the store, 28 to run", False),
    ("   none      3/3 78.93 ± 0.91 79.56", False), ("", False),
])  # fmt: skip
def test_the_end_of_a_trial_is_seen_in_what_a_launch_says(line: str, ends: bool) -> None:
    assert is_an_end(line) == ends


def test_a_launch_that_takes_too_long_is_ended_and_has_no_exit_code(tmp_path: Path) -> None:
    found = launch("--dry-run", folder=tmp_path, seconds=0.05, variables=variables_for(tmp_path))
    assert (found.code, found.seconds < 30) == (None, True)


# --- Gradients


class WrongBackward(torch.autograd.Function):
    """The identity, with a gradient that is a tenth too small."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 0.9 * gradient


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_backward_pass_that_is_not_that_of_the_forward_pass_is_seen_with_dropout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_wrong: bool
) -> None:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    real = dropout_module.forward

    def dropout(module: torch.nn.Dropout, tensor: torch.Tensor) -> torch.Tensor:
        dropped: torch.Tensor = real(module, tensor)
        return WrongBackward.apply(dropped) if is_wrong else dropped  # type: ignore[no-untyped-call]

    spec = changed(exactness.small_trial(PartContext(tmp_path, tmp_path, True, 60.0), "bert"), dropout=0.1)
    checked_mode(spec, torch.device("cpu"))  # the product's own check, which would see it first
    monkeypatch.setattr(dropout_module, "forward", dropout)
    distance = abs(step_gradient(spec, torch.device("cpu")).numeric_share - 1)
    assert (distance > exactness.LIMITS[f"{exactness.DERIVATIVES}, with dropout"]) == is_wrong, distance


# --- What is carried to another machine


def test_every_package_that_is_carried_is_pinned() -> None:
    assert set(PACKAGES) <= pinned_versions().keys()
    assert "" not in pinned_versions().values()


def test_what_is_carried_unpacks_into_packages_without_what_is_of_no_use_and_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(packages: list[str], folder: Path, python: str) -> None:
        assert ("ray" in packages, packages[-1], python) == (True, "pyarrow", "3.12")
        with zipfile.ZipFile(folder / "ray-1-py3-none-any.whl", "w") as wheel:
            for name in ("ray/__init__.py", "ray/jars/one.jar", "ray-1.data/purelib/more.py", "ray-1.data/scripts/ray"):
                wheel.writestr(name, "pass\n")
            wheel.writestr("ray/noise", os.urandom(300))

    monkeypatch.setattr(carry, "_download", download)
    monkeypatch.setattr(carry, "_files_of_the_project", lambda: ["trials/__init__.py", "Makefile"])
    monkeypatch.setattr(carry, "PIECE_BYTES", 200)
    pieces = carry.write_carry(tmp_path / "carry", python="3.12", also=["pyarrow"])
    assert len(pieces) > 4
    assert max(piece.stat().st_size for piece in pieces) == 200
    carry.unpack(tmp_path / "carry", tmp_path / "there")
    found = sorted(str(p.relative_to(tmp_path / "there")) for p in (tmp_path / "there").rglob("*") if p.is_file())
    assert found == [
        "project/Makefile", "project/trials/__init__.py", "site/more.py", "site/ray/__init__.py", "site/ray/noise",
    ]  # fmt: skip
    assert (tmp_path / "there" / "project" / "Makefile").read_bytes() == (ROOT / "Makefile").read_bytes()


def test_an_archive_that_was_cut_off_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "_files_of_the_project", lambda: ["Makefile", "no such file"])
    with pytest.raises(FileNotFoundError):
        carry.write_project(tmp_path)
    assert (carry.pieces_in(tmp_path, carry.PROJECT), len(list(tmp_path.iterdir()))) == ([], 1)


def test_the_project_travels_without_what_only_other_tests_and_pages_need() -> None:
    files = carry._files_of_the_project()
    assert {"tests/lab/gpu/__main__.py", "trials/run.py", "configs/sweeps/starter.yaml"} <= set(files)
    assert not [name for name in files if name.startswith(("tests/assets/", "tests/browser/", "dashboards/assets/"))]

"""The GPU run works on a CPU, on a machine that lacks nearly everything, and loses nothing when a part dies."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestrator.sweeps.sweep import expand, load_sweep
from tests.lab.gpu import carry
from tests.lab.gpu.bare_machine import bare_machine
from tests.lab.gpu.carry import HERE, MACHINE, PACKAGES, pinned_versions
from tests.lab.gpu.gradients import step_gradient
from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.parts import exactness
from tests.lab.gpu.parts.product import SCORES
from tests.lab.gpu.results import read_json
from tests.lab.gpu.runner import BUDGETS_S, MOST_S, run_part
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


@pytest.mark.parametrize(
    ("code", "budget_s", "status", "reason"),
    [
        ("os._exit(3)", 100.0, "failed", "its process ended with exit code 3"),
        ("time.sleep(600)", 0.1, "cut", "it took longer than its 0 s"),
    ],
    ids=["dies", "hangs"],
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


# --- The product


def test_the_cpus_scores_are_of_the_starters_trials() -> None:
    declared, document = load_sweep(ROOT / "configs" / "sweeps" / "starter.yaml", ["seeds=[0,1]"])
    planned = {spec.trial_id for spec in expand(declared, document, Lookup(offline=True))}
    assert read_json(SCORES)["trials"].keys() == planned


# --- Gradients


class WrongBackward(torch.autograd.Function):
    """The identity, with a gradient that is a tenth too small."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 0.9 * gradient


def test_a_backward_pass_that_is_not_that_of_the_forward_pass_is_seen_with_dropout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    real = dropout_module.forward

    def dropout(module: torch.nn.Dropout, tensor: torch.Tensor) -> torch.Tensor:
        dropped: torch.Tensor = real(module, tensor)
        wrong: torch.Tensor = WrongBackward.apply(dropped)  # type: ignore[no-untyped-call]
        return wrong

    spec = changed(exactness.small_trial(PartContext(tmp_path, tmp_path, True, 60.0), "bert"), dropout=0.1)
    checked_mode(spec, torch.device("cpu"))  # the product's own check, which would see it first
    monkeypatch.setattr(dropout_module, "forward", dropout)
    distance = abs(step_gradient(spec, torch.device("cpu")).numeric_share - 1)
    assert distance > exactness.LIMITS[f"{exactness.DERIVATIVES}, with dropout"]


# --- What is carried to another machine


def test_every_package_that_is_carried_is_pinned() -> None:
    assert set(PACKAGES) <= pinned_versions().keys()
    assert "" not in pinned_versions().values()


def test_the_project_travels_without_what_only_other_tests_and_pages_need() -> None:
    files = carry._files_of_the_project()
    assert {"tests/lab/gpu/__main__.py", "trials/run.py", "configs/sweeps/starter.yaml"} <= set(files)
    assert not [name for name in files if name.startswith(("tests/assets/", "tests/browser/", "dashboards/assets/"))]

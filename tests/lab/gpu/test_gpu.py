"""The GPU run works on a CPU, on a machine that lacks nearly everything."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from tests.lab.gpu import carry
from tests.lab.gpu.__main__ import main
from tests.lab.gpu.bare_machine import bare_machine
from tests.lab.gpu.carry import HERE, MACHINE, PACKAGES, pinned_versions
from tests.lab.gpu.part_context import NoTimeError, PartContext
from tests.lab.gpu.parts import product
from tests.lab.gpu.parts.product import SCORES
from tests.lab.gpu.results import Record, read_json
from tests.lab.gpu.runner import BUDGETS_S
from trials.draft import Lookup

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
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["summary.json"]
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
    python, variables = bare_machine(tmp_path / "machine", ("numpy", "pyyaml"))
    done = rehearse(python, variables, tmp_path / "out")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("missing: torch, transformers, ")
    assert f"python -m tests.lab.gpu --carry DIR --python {HERE}" in done.stderr


def test_a_launch_without_its_time_is_not_run_and_breaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    record = Record(tmp_path / "product.json")
    with pytest.raises(NoTimeError, match="as the time was up: inline, all trials, and what would have followed"):
        product.run(PartContext(tmp_path, tmp_path, rehearse=True, budget_s=1.0), record)
    assert read_json(tmp_path / "product.json").get("checks", []) == []


@pytest.mark.slow
def test_the_cpus_scores_are_of_the_starters_trials() -> None:
    declared, document = load_sweep(ROOT / "configs" / "sweeps" / "starter.yaml", ["seeds=[0,1]"])
    planned = {spec.trial_id for spec in expand(declared, document, Lookup(offline=True))}
    assert read_json(SCORES)["trials"].keys() == planned


def test_every_package_that_is_carried_is_pinned() -> None:
    assert set(PACKAGES) <= pinned_versions().keys()


def test_what_is_carried_unpacks_into_packages_without_what_is_of_no_use_and_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download(packages: list[str], folder: Path, python: str) -> None:
        assert ("ray" in packages, python) == (True, "3.1")
        with zipfile.ZipFile(folder / "ray-1-py3-none-any.whl", "w") as wheel:
            for name in ("ray/__init__.py", "ray/jars/one.jar", "ray-1.data/purelib/more.py", "ray-1.data/scripts/ray"):
                wheel.writestr(name, "pass\n")
            wheel.writestr("ray/noise", os.urandom(300))

    monkeypatch.setattr(carry, "_download", download)
    monkeypatch.setattr(carry, "_files_of_the_project", lambda: ["trials/__init__.py", "Makefile"])
    monkeypatch.setattr(carry, "PIECE_BYTES", 200)
    pieces = carry.write_carry(tmp_path / "carry", python="3.1")
    assert len(pieces) > 4
    assert main(["--rehearse", "--carry", str(tmp_path / "carry"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.endswith(f"is for Python 3.1, and this is {HERE}: rehearse with another DIR.\n")
    assert max(piece.stat().st_size for piece in pieces) == 200
    carry.unpack(tmp_path / "carry", tmp_path / "there")
    found = sorted(str(p.relative_to(tmp_path / "there")) for p in (tmp_path / "there").rglob("*") if p.is_file())
    assert found == [
        "project/Makefile", "project/trials/__init__.py", "site/more.py", "site/ray/__init__.py", "site/ray/noise",
    ]  # fmt: skip
    assert (tmp_path / "there" / "project" / "Makefile").read_bytes() == (ROOT / "Makefile").read_bytes()

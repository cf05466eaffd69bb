"""The doctor in a sound and in a broken world: each problem is told with its fix, and none hides another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from orchestrator.commands import doctor_command
from orchestrator.commands.doctor_command import (
    CheckResult,
    check_disk,
    check_python,
    check_store,
    check_torch,
    doctor,
    examined,
)
from tests.examples import each
from trials.hardware.machine import CudaGpus, Gpu


def levels(found: Iterator[CheckResult]) -> list[str]:
    return [one.level for one in found]


@pytest.mark.cluster
def test_this_machine_has_what_a_sweep_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        doctor(str(tmp_path / "results"), as_json=True)
    found = json.loads(capsys.readouterr().out)["findings"]
    assert ended.value.exit_code == 0, found
    assert {one["check"] for one in found} == {"python", "torch", "store", "cache", "ray"}
    assert any("a local Ray started in" in one["what"] for one in found)


def test_a_failure_is_exit_code_1_and_stands_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor_command, "examined", lambda checks: check_python((3, 10, 2)))
    with pytest.raises(typer.Exit) as ended:
        doctor()
    shown = capsys.readouterr().out
    assert ended.value.exit_code == 1
    assert "Python 3.10.2 is too old" in shown
    assert "->" in shown


def test_a_check_that_raises_is_a_finding_and_the_others_are_made() -> None:
    def check_odd() -> Iterator[CheckResult]:
        raise RuntimeError("odd")
        yield

    found = list(examined({"odd": check_odd, "python": check_python}))
    assert [(one.check, one.level) for one in found] == [("odd", "fail"), ("python", "ok")]
    assert "odd" in found[0].what


def examined_torch(gpus: CudaGpus, monkeypatch: pytest.MonkeyPatch, *, driver: bool) -> list[CheckResult]:
    """What is said after the line of the machine itself."""
    monkeypatch.setattr(doctor_command, "listed_gpus", lambda: gpus)
    monkeypatch.setattr(doctor_command, "may_have_gpus", lambda: driver)
    machine, *found = check_torch()
    assert machine.level == "ok"
    assert ("trials run on the CPU" in machine.what) == (not driver and not gpus.found)
    return found


OLD = "The driver is too old (found version 12040)."


@each(
    "gpus, visible, said, fix",
    [
        (CudaGpus(torch="2.13.0+cpu"), None, "torch 2.13.0+cpu was built without CUDA", "make setup TORCH=cuda"),
        (CudaGpus(torch="2.13.0", cuda="13.0", warnings=(OLD,)), None,
         f"torch 2.13.0 for CUDA 13.0 says of the GPUs: {OLD}", "make setup TORCH=cu126"),
        (CudaGpus(torch="2.13.0", cuda="13.0"), None, "torch 2.13.0 for CUDA 13.0 sees none", "nvidia-smi"),
        (CudaGpus(torch="2.13.0", cuda="13.0"), "7", "sees none: CUDA_VISIBLE_DEVICES='7'",
         "Unset CUDA_VISIBLE_DEVICES"),
    ],
)  # fmt: skip
def test_why_torch_sees_no_gpu_is_told_with_its_own_warning_and_what_to_run(
    monkeypatch: pytest.MonkeyPatch, gpus: CudaGpus, visible: str | None, said: str, fix: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (found,) = examined_torch(gpus, monkeypatch, driver=True)
    assert (found.level, said in found.what, fix in found.fix) == ("warn", True, True), found


def test_a_torch_for_cuda_on_a_machine_without_a_driver_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    warned = CudaGpus(torch="2.13.0", cuda="13.0", warnings=("CUDA initialization: found no NVIDIA driver",))
    assert examined_torch(warned, monkeypatch, driver=False) == []


def test_a_card_that_torch_warns_of_is_listed_and_one_on_which_it_fails_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card, warning = Gpu("Tesla V100", 16 * 10**9), "Tesla V100 with CUDA capability sm_70 is not compatible."
    known = CudaGpus((card,), torch="2.13.0", cuda="13.0", warnings=(warning,))
    good, told = examined_torch(known, monkeypatch, driver=True)
    assert (good.level, warning in told.what, "TORCH=cu126" in told.fix) == ("ok", True, True)
    none = CudaGpus(why_none="torch cannot compute on V100: no kernel image")
    (failed,) = examined_torch(none, monkeypatch, driver=True)
    assert (failed.level, "TORCH=cu126" in failed.fix) == ("fail", True)


def test_a_full_disk_warns_and_what_is_no_folder_or_no_store_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert levels(check_disk("cache", tmp_path / "new" / "deep", "fix", low=1.0)) == ["ok"]
    assert levels(check_disk("cache", tmp_path, "fix", low=1e18)) == ["warn"]
    assert levels(check_disk("cache", tmp_path / "file" / "inside", "fix")) == ["fail"]
    (found,) = check_store(str(tmp_path))
    assert (found.level, bool(found.fix)) == ("fail", True)

"""What this process may use: cores by affinity and cgroups of both versions, GPUs as torch lists them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.examples import each
from trials.errors import MissingError
from trials.hardware import machine
from trials.hardware.device import device_for, start_device
from trials.hardware.machine import CudaGpus, Gpu, SilentError, listed_gpus, show_gpus, usable_cores

V2, V1 = "0::/a/b\n", "12:cpu,cpuacct:/a/b\n3:memory:/else\n0::/\n"


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def proc(folder: Path, cgroup: str, mount: str, kind: str, files: dict[str, str]) -> Path:
    """A process's `cgroup` and `mountinfo`, and a mounted hierarchy with these files."""
    for name, text in files.items():
        (folder / "mnt" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mnt" / name).write_text(text)
    (folder / "cgroup").write_text(cgroup)
    other = "22 1 0:1 / /proc rw - proc proc rw\n"
    (folder / "mountinfo").write_text(f"{other}31 22 0:28 {mount} {folder}/mnt rw,relatime shared:9 - {kind}\n")
    return folder


@each(
    "cgroup, mount, kind, files, cores",
    [
        (V2, "/", "cgroup2 cgroup rw", {"a/b/cpu.max": "max 100000\n"}, 8),
        (V2, "/", "cgroup2 cgroup rw", {"a/b/cpu.max": "250000 100000\n"}, 2),
        (V2, "/", "cgroup2 cgroup rw", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        (V2, "/", "cgroup2 cgroup rw", {"a/b/cpu.max": "50000 100000\n"}, 1),  # half a core
        ("0::/\n", "/", "cgroup2 cgroup rw", {"cpu.max": "400000 100000\n"}, 4),  # a container's namespace
        ("0::/../../x\n", "/", "cgroup2 cgroup rw", {"cpu.max": "400000 100000\n"}, 4),
        (V2, "/", "cgroup2 cgroup rw", {"a/b/cpu.max": "nonsense"}, 8),
        (V1, "/", "cgroup c rw,cpu,cpuacct", {"a/b/cpu.cfs_quota_us": "200000", "a/b/cpu.cfs_period_us": "100000"}, 2),
        (V1, "/", "cgroup c rw,cpu,cpuacct", {"a/b/cpu.cfs_quota_us": "-1", "a/b/cpu.cfs_period_us": "100000"}, 8),
        (V1, "/a/b", "cgroup c rw,cpu", {"cpu.cfs_quota_us": "500000", "cpu.cfs_period_us": "100000"}, 5),  # Docker
        (V1, "/a/b", "cgroup c rw,cpu", {"cpu.cfs_quota_us": "500000", "cpu.cfs_period_us": "0"}, 8),
        (V1, "/", "cgroup c rw,memory", {"a/b/cpu.cfs_quota_us": "100000", "a/b/cpu.cfs_period_us": "100000"}, 8),
    ],
)
@pytest.mark.usefixtures("eight_cores")
def test_a_cgroup_of_either_version_limits_the_cores(
    cgroup: str, mount: str, kind: str, files: dict[str, str], cores: int, tmp_path: Path
) -> None:
    assert usable_cores(proc(tmp_path, cgroup, mount, kind, files)) == cores


def test_without_proc_the_affinity_alone_limits_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    assert usable_cores(tmp_path / "none") == 2


@pytest.mark.parametrize(
    ("visible", "why"),
    [("", "CUDA_VISIBLE_DEVICES='' hides its GPUs"), (None, "torch sees no GPU, although there is a driver for one")],
)
def test_a_gpu_that_is_not_seen_has_a_reason(visible: str | None, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "may_have_gpus", lambda: True)
    monkeypatch.setattr(machine, "listed_gpus", CudaGpus)
    assert machine._cuda_gpus.__wrapped__(visible).why_none == why


def test_a_driver_that_is_too_old_is_told_in_torchs_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "CUDA initialization: The NVIDIA driver on your system is too old (found version 12040). Please update it."
    monkeypatch.setattr(machine, "may_have_gpus", lambda: True)
    monkeypatch.setattr(machine, "listed_gpus", lambda: CudaGpus(warnings=(said,)))
    found = machine._cuda_gpus.__wrapped__(None)
    assert found.why_none.endswith(
        "driver for one: CUDA initialization: The NVIDIA driver on your system is too old (found version 12040)"
    )
    assert found.warnings == (said,)


@each("answers, silent, n", [(1, False, 1), (2, True, 0)])
def test_a_torch_that_is_slow_to_import_is_asked_twice(
    answers: int, silent: bool, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def listed() -> CudaGpus:
        asked.append(1)
        if len(asked) <= answers:
            raise SilentError("torch did not list the GPUs in time")
        return CudaGpus((Gpu("T4", 16),))

    monkeypatch.setattr(machine, "may_have_gpus", lambda: True)
    monkeypatch.setattr(machine, "listed_gpus", listed)
    found = machine._cuda_gpus.__wrapped__(None)
    assert (len(asked), found.silent, len(found.found)) == (2, silent, n)


def test_a_macs_gpu_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine._cuda_gpus.__wrapped__(None).why_none == "a Mac's GPU is not used, as results on it are not tested"


GOOD = {"name": "T4", "n_bytes": 16, "free_bytes": 15}
OLD = {
    "name": "K80",
    "n_bytes": 12,
    "why_not": "CUDA error: no kernel image is available for execution\nCUDA kernel ...",
}
FULL = {"name": "T4", "n_bytes": 16, "why_not": "CUDA error: out of memory"}
MIG = {"name": "NVIDIA A100 MIG 1g.5gb", "n_bytes": 5, "free_bytes": 5}
REFUSED = "CUDA error: no kernel image is available for execution"


def listed(*gpus: dict[str, object], said: Sequence[str] = ()) -> CudaGpus:
    answer = json.dumps({"gpus": gpus, "said": said, "torch": "2.13.0", "cuda": "13.0"})
    return listed_gpus([sys.executable, "-c", f"print({answer!r})"])


@each(
    "visible, gpus, places, why, notes",
    [
        (None, [GOOD, GOOD], "01", "", []),
        ("3,5", [GOOD, GOOD], "35", "", []),
        (None, [OLD, GOOD], "1", "", [f"K80 (number 0): {REFUSED}; it is not used"]),
        ("5,2", [GOOD, FULL], "5", "", ["T4 (number 2): CUDA error: out of memory; it is not used"]),
        (None, [OLD], "", f"torch cannot compute on K80 (number 0): {REFUSED}", []),
        ("0,7", [GOOD], "0", "", ["CUDA_VISIBLE_DEVICES='0,7' names 2 GPUs, of which CUDA finds 1"]),
        ("MIG-1", [MIG], ["MIG-1"], "", []),
        ("MIG-1,MIG-2", [MIG], ["MIG-1", "MIG-2"], "", []),
        ("7", [], "", "", []),
        ("", [], "", "", []),
    ],
)
def test_a_card_that_cannot_compute_is_left_out_and_named_and_so_is_one_that_is_not_there(
    visible: str | None,
    gpus: list[Any],
    places: Sequence[str],
    why: str,
    notes: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(machine.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(machine.VISIBLE, visible)
    found = listed(*gpus)
    assert [gpu.place for gpu in found.found] == [*places]
    assert (found.why_none, found.notes) == (why, tuple(notes))
    with show_gpus(found.found):
        assert os.environ[machine.VISIBLE] == ",".join(places)


NVIDIA_SMI = """#!/bin/sh
echo "GPU 0: NVIDIA A100 (UUID: GPU-0)"
echo "  MIG 1g.5gb      Device  0: (UUID: MIG-a)"
echo "  MIG 2g.10gb     Device  1: (UUID: MIG-b)"
"""
ASKED = """
import json, os
visible = os.environ.get("CUDA_VISIBLE_DEVICES", "MIG-a").partition(",")[0]
why = "CUDA error: out of memory" if visible == "MIG-c" else ""
gpu = {"name": "NVIDIA A100 MIG " + visible, "n_bytes": 5, "why_not": why}
print(json.dumps({"gpus": [gpu] if visible < "MIG-d" else [], "said": [], "torch": "", "cuda": ""}))
"""


@each("visible, found, notes", [(None, "ab", 0), ("MIG-b,MIG-d,MIG-a", "ba", 1), ("MIG-a,MIG-c", "a", 1)])
def test_each_instance_of_a_card_is_asked_about_though_cuda_shows_a_process_one(
    visible: str | None, found: str, notes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv(machine.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(machine.VISIBLE, visible)
    gpus = listed_gpus([sys.executable, "-c", ASKED])
    assert [gpu.place for gpu in gpus.found] == [f"MIG-{place}" for place in found]
    assert [gpu.name[-5:] for gpu in gpus.found] == [gpu.place for gpu in gpus.found]
    assert len(gpus.notes) == notes


def test_a_broken_torch_is_told() -> None:
    with pytest.raises(MissingError, match="torch does not work \\(3\\)"):
        listed_gpus([sys.executable, "-c", "raise SystemExit('3')"])


@pytest.mark.parametrize("before", [None, "1,2"])
def test_hidden_gpus_are_seen_again_afterwards(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.VISIBLE, raising=False)
    if before is not None:
        monkeypatch.setenv(machine.VISIBLE, before)
    with show_gpus(()):
        assert os.environ[machine.VISIBLE] == ""
    assert os.environ.get(machine.VISIBLE) == before


# --- A trial's device is what it was given, whatever its process can see.


@pytest.mark.parametrize(("gpus", "device"), [(0.0, "cpu"), (0.25, "cuda:0"), (1.0, "cuda:0")])
def test_a_trial_without_a_gpu_leaves_those_that_it_sees_alone(
    gpus: float, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_for(gpus) == torch.device(device)


def test_fp32_is_fp32_whatever_a_container_allows() -> None:
    torch.set_float32_matmul_precision("medium")
    start_device(torch.device("cpu"))
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_gpu_that_torch_cannot_use_fails_the_trial_with_the_way_out() -> None:
    with pytest.raises(
        MissingError, match=r"was given 1 of a GPU on .*, but torch there sees none. Install a CUDA build"
    ):
        device_for(1.0)

"""What this process may use: cores by affinity and cgroups of both versions, GPUs as torch lists them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from tests.examples import each
from trials.errors import MissingError
from trials.hardware import machine
from trials.hardware.device import device_for
from trials.hardware.machine import Gpu, hidden_gpus, listed_gpus, usable_cores

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
    monkeypatch.setattr(machine, "listed_gpus", lambda: ())
    assert machine._cuda_gpus.__wrapped__(visible).why_none == why


def test_a_macs_gpu_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert machine._cuda_gpus.__wrapped__(None).why_none == "a Mac's GPU is not used, as results on it are not tested"


def test_gpus_are_those_that_torch_lists_and_a_broken_torch_is_told() -> None:
    assert listed_gpus([sys.executable, "-c", "print('[[\"T4\", 16]]')"]) == (Gpu("T4", 16),)
    with pytest.raises(MissingError, match="torch does not work \\(3\\)"):
        listed_gpus([sys.executable, "-c", "raise SystemExit('3')"])


@pytest.mark.parametrize("before", [None, "1,2"])
def test_hidden_gpus_are_seen_again_afterwards(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(machine.VISIBLE, raising=False)
    if before is not None:
        monkeypatch.setenv(machine.VISIBLE, before)
    with hidden_gpus():
        assert os.environ[machine.VISIBLE] == ""
    assert os.environ.get(machine.VISIBLE) == before


# --- A trial's device is what it was given, whatever its process can see.


@pytest.mark.parametrize(("gpus", "device"), [(0.0, "cpu"), (0.25, "cuda:0"), (1.0, "cuda:0")])
def test_a_trial_without_a_gpu_leaves_those_that_it_sees_alone(
    gpus: float, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_for(gpus) == torch.device(device)


def test_a_gpu_that_torch_cannot_use_fails_the_trial_with_the_way_out() -> None:
    with pytest.raises(
        MissingError, match=r"was given 1 of a GPU on .*, but torch there sees none. Install a CUDA build"
    ):
        device_for(1.0)

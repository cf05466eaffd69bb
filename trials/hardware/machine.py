"""What this process may use of its machine: CPU, cores and GPUs, without torch, so that a plan can ask."""

from __future__ import annotations

import ctypes
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from trials.errors import MissingError


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """E.g. `cpu AMD EPYC`: times of the same name can be compared; `cpu` if it cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "cpu"
    return "cpu " + next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


# What this process may use of its machine: cores and GPUs, without torch, so that a plan can ask.

VISIBLE = "CUDA_VISIBLE_DEVICES"
TORCH_S = 80.0  # importing torch from a cold disk takes most of it; a broken driver never answers
_PROC, _NVIDIA, _AMD = Path("/proc/self"), Path("/proc/driver/nvidia"), Path("/dev/kfd")
# -P: a torch.py in the working folder is not torch.
_ASK = (sys.executable, "-P", "-c", """
import json, torch
n = torch.cuda.device_count() if torch.cuda.is_available() else 0
found = [torch.cuda.get_device_properties(i) for i in range(n)]
print(json.dumps([[one.name, one.total_memory] for one in found]))
""")  # fmt: skip


def usable_cores(proc: Path = _PROC) -> int:
    """Cores that this process may use: those of its affinity (taskset, cpusets, Slurm's binding), and no more than the
    whole cores of CPU time that its cgroups allow (a container's limit); at least 1.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota = min(_quotas(proc), default=math.inf)
    except (OSError, ValueError):  # no /proc, or one of another system
        quota = math.inf
    return max(1, affinity if math.isinf(quota) else min(affinity, int(quota)))


def _quotas(proc: Path) -> Iterator[float]:
    """Cores of CPU time that each cgroup around the process allows (cgroups(7); version 1, 2 or both)."""
    own = dict[str, str]()  # controller, "" for version 2 -> the process's path below the root of its hierarchy
    for line in (proc / "cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, place = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), place)
    for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines():
        mount, _, mounted = line.partition(" - ")
        root, folder = mount.split()[3:5]
        kind, *_, options = mounted.split()
        path = own.get("") if kind == "cgroup2" else own.get("cpu") if "cpu" in options.split(",") else None
        if kind in ("cgroup", "cgroup2") and path is not None:
            yield from (_quota(cgroup) for cgroup in _between(Path(folder), PurePosixPath(path), PurePosixPath(root)))


def _between(mounted: Path, path: PurePosixPath, root: PurePosixPath) -> Iterator[Path]:
    """The folders from a mounted cgroup down to the process's own; a container may see its path as that of its host."""
    inside = path.relative_to(root) if path.is_relative_to(root) and ".." not in path.parts else PurePosixPath()
    yield mounted
    yield from (mounted.joinpath(*inside.parts[: n + 1]) for n in range(len(inside.parts)))


def _quota(cgroup: Path) -> float:
    try:
        if (cgroup / "cpu.max").exists():
            quota, period = (cgroup / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (cgroup / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period")
            )
        return math.inf if quota == "max" or float(quota) < 0 else float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


@dataclass(frozen=True)
class Gpu:
    """A GPU as torch names it."""

    name: str
    n_bytes: int


@dataclass(frozen=True)
class CudaGpus:
    """The GPUs that CUDA gives this process.

    Attributes:
        why_none: Where there are none although one might expect some; else empty.
    """

    found: tuple[Gpu, ...] = ()
    why_none: str = ""


def cuda_gpus() -> CudaGpus:
    """The GPUs on which torch trains, in the order of CUDA. Asked once, in a process of its own."""
    return _cuda_gpus(os.environ.get(VISIBLE))


@cache
def _cuda_gpus(visible: str | None) -> CudaGpus:
    if sys.platform == "darwin":
        return CudaGpus(why_none="a Mac's GPU is not used, as results on it are not tested")
    if not may_have_gpus():
        return CudaGpus()
    try:
        gpus = listed_gpus()
    except MissingError as error:
        return CudaGpus(why_none=str(error))
    if gpus:
        return CudaGpus(gpus)
    if visible is not None:
        return CudaGpus(why_none=f"{VISIBLE}={visible!r} hides its GPUs")
    return CudaGpus(why_none="torch sees no GPU, although there is a driver for one")


def may_have_gpus() -> bool:
    """Whether asking torch, which takes seconds, can find any: NVIDIA's driver has its library, or AMD's a device."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return _NVIDIA.is_dir() or _AMD.exists()
    return True


def listed_gpus(python_words: Sequence[str] = _ASK) -> tuple[Gpu, ...]:
    """The GPUs that torch lists, in a process of its own, as a driver may hang. Raises MissingError: torch fails."""
    try:
        done = subprocess.run(python_words, capture_output=True, text=True, timeout=TORCH_S, check=True)
        return tuple(Gpu(*values) for values in json.loads(done.stdout.strip().splitlines()[-1]))
    except subprocess.TimeoutExpired:
        raise MissingError("torch did not list the GPUs in time; check the driver with nvidia-smi.") from None
    except (subprocess.CalledProcessError, ValueError, IndexError, TypeError) as error:
        lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise MissingError(f"torch does not work ({lines[-1] if lines else 'no reason given'}).") from error


@contextmanager
def hidden_gpus() -> Iterator[None]:
    """No process that starts in the block sees a GPU, nor does this one if it has not used CUDA before."""
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = ""
    try:
        yield
    finally:
        os.environ.pop(VISIBLE)
        if before is not None:
            os.environ[VISIBLE] = before

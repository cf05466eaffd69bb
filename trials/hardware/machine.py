"""The CPU, cores and GPUs that this process may use, found out without torch, so that a plan stays fast."""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any

from trials.errors import MissingError, reason


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """E.g. `cpu AMD EPYC`: times of the same name can be compared; `cpu` if it cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "cpu"
    return "cpu " + next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


# Held while this process computes with torch: its random numbers, threads and replaced operations are shared.
TORCH_LOCK = threading.RLock()
VISIBLE = "CUDA_VISIBLE_DEVICES"
TORCH_S = 80.0  # importing torch from a cold disk takes most of it; a broken driver never answers
_PROC, _NVIDIA, _AMD = Path("/proc/self"), Path("/proc/driver/nvidia"), Path("/dev/kfd")
# -P: a torch.py in the working folder is not torch.
# A card that torch lists may be too old for it, full or broken, which only a computation tells.
_ASK = (sys.executable, "-P", "-c", """
import json, re, warnings
gpus = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    for i in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        gpu = {"name": "", "n_bytes": 0}
        try:
            found = torch.cuda.get_device_properties(i)
            gpu = {"name": found.name, "n_bytes": found.total_memory}
            gpu["free_bytes"] = torch.cuda.mem_get_info(i)[0]
            square = torch.ones(8, 8, device=f"cuda:{i}")
            (square @ square).sum().item()
        except Exception as error:
            gpu["why_not"] = str(error) or type(error).__name__
        gpus.append(gpu)
said = [re.sub(r" \\(Triggered internally.*", "", " ".join(str(one.message).split())) for one in caught]
said = [text for text in dict.fromkeys(said) if any(word in text for word in ("CUDA", "cuda", "GPU"))]
build = {"torch": torch.__version__, "cuda": torch.version.cuda or torch.version.hip or ""}
print(json.dumps({"gpus": gpus, "said": said, **build}))
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
            yield from (
                _quota(cgroup) for cgroup in _folders_between(Path(folder), PurePosixPath(path), PurePosixPath(root))
            )


def _folders_between(mounted: Path, path: PurePosixPath, root: PurePosixPath) -> Iterator[Path]:
    """The folders from a mounted cgroup down to the process's own. A container may see its path as the host's."""
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
    """A GPU as torch names it; an instance of one (MIG) is one by itself.

    Attributes:
        free_bytes: What other programs left of its memory when it was asked; None where that is not known.
        why_not: Why torch cannot compute on it; empty if it can.
        place: What selects it in CUDA_VISIBLE_DEVICES.
    """

    name: str
    n_bytes: int
    free_bytes: int | None = None
    why_not: str = ""
    place: str = ""


@dataclass(frozen=True)
class CudaGpus:
    """The GPUs that CUDA gives this process.

    Attributes:
        found: Those on which torch can compute.
        why_none: Where there are none although one might expect some; else empty.
        notes: What else is to be said: of each that cannot be used, and of a CUDA_VISIBLE_DEVICES beyond what is there.
        warnings: torch's own warnings, without their places in its source.
        torch: Its version, and `cuda` that of CUDA that it was built for; empty for a build without.
        silent: Whether torch did not answer, so that it is unknown which GPUs there are.
    """

    found: tuple[Gpu, ...] = ()
    why_none: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    silent: bool = False
    torch: str = ""
    cuda: str = ""


def cuda_gpus() -> CudaGpus:
    """The GPUs on which torch trains, in the order of CUDA. Asked once, in a process of its own.

    A torch that is not imported in time, from a cold disk, is asked a second time.
    """
    return _cuda_gpus(os.environ.get(VISIBLE))


@cache
def _cuda_gpus(visible: str | None) -> CudaGpus:
    if sys.platform == "darwin":
        return CudaGpus(why_none="a Mac's GPU is not used, as results on it are not tested")
    if not may_have_gpus():
        return CudaGpus()
    try:
        try:
            listed = listed_gpus()
        except SilentError:
            listed = listed_gpus()
    except MissingError as error:
        return CudaGpus(why_none=str(error), silent=isinstance(error, SilentError))
    if listed.found or listed.why_none:
        return listed
    if visible is not None:
        return replace(listed, why_none=f"{VISIBLE}={visible!r} hides its GPUs")
    why = f": {reason(RuntimeError(listed.warnings[0]))}" if listed.warnings else ""
    return replace(listed, why_none=f"torch sees no GPU, although there is a driver for one{why}")


def may_have_gpus() -> bool:
    """Whether asking torch, which takes seconds, can find any: NVIDIA's driver has its library, or AMD's a device."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return _NVIDIA.is_dir() or _AMD.exists()
    return True


class SilentError(MissingError):
    """torch did not answer in time."""


def listed_gpus(python_words: Sequence[str] = _ASK) -> CudaGpus:
    """The GPUs that torch lists and computes on, in a process of its own, as a driver may hang.

    CUDA shows a process one instance of a card (MIG), so each is asked about by itself.

    Raises:
        SilentError: it does not answer.
        MissingError: torch fails.
    """
    visible = os.environ.get(VISIBLE)
    answer = _answer(python_words, visible)
    gpus = [Gpu(**gpu) for gpu in answer["gpus"]]
    if len(gpus) == 1 and " MIG " in gpus[0].name:
        places = _instances() if visible is None else _places(visible)
        with ThreadPoolExecutor(usable_cores()) as pool:
            answers = list(pool.map(partial(_answer, python_words), places)) if len(places) > 1 else []
        several = [Gpu(**gpu, place=p) for p, one in zip(places, answers, strict=False) for gpu in one["gpus"]]
        gpus = several or gpus
    return replace(_sorted_out(gpus, answer["said"], visible), torch=answer["torch"], cuda=answer["cuda"])


def _answer(python_words: Sequence[str], visible: str | None) -> dict[str, Any]:
    """What torch says where CUDA_VISIBLE_DEVICES is `visible`. Raises as `listed_gpus`."""
    variables = os.environ if visible is None else os.environ | {VISIBLE: visible}
    try:
        done = subprocess.run(python_words, capture_output=True, text=True, timeout=TORCH_S, check=True, env=variables)
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return {"gpus": answer["gpus"], "said": answer["said"], "torch": answer["torch"], "cuda": answer["cuda"]}
    except subprocess.TimeoutExpired:
        raise SilentError("torch did not list the GPUs in time; check the driver with nvidia-smi.") from None
    except (subprocess.CalledProcessError, ValueError, LookupError, TypeError) as error:
        lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise MissingError(f"torch does not work ({lines[-1] if lines else 'no reason given'}).") from error


def _places(visible: str) -> list[str]:
    return [place.strip() for place in visible.split(",") if place.strip()]


def _instances() -> list[str]:
    """What selects each instance (MIG) that this process may use, by `nvidia-smi`."""
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=TORCH_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return re.findall(r"MIG-[^)\s]+", done.stdout)


def _sorted_out(listed: Sequence[Gpu], warnings: Sequence[str], visible: str | None) -> CudaGpus:
    """The GPUs that can be used, and words on the others."""
    requested = _places(visible or "")
    # CUDA ends the list at the first that does not exist.
    places = requested if len(requested) >= len(listed) else [str(i) for i in range(len(listed))]
    gpus = [replace(gpu, place=gpu.place or place) for gpu, place in zip(listed, places, strict=False)]
    refused = [
        f"{gpu.name or 'GPU'} (number {gpu.place}): {reason(RuntimeError(gpu.why_not))}" for gpu in gpus if gpu.why_not
    ]
    found = tuple(gpu for gpu in gpus if not gpu.why_not)
    notes = [f"{each}; it is not used" for each in refused]
    if found and len(requested) > len(listed):
        notes.append(f"{VISIBLE}={visible!r} names {len(requested)} GPUs, of which CUDA finds {len(listed)}")
    why = f"torch cannot compute on {'; '.join(refused)}" if refused and not found else ""
    return CudaGpus(found, why, tuple(notes) if found else (), tuple(warnings))


_shown_before: list[str | None] = []


@contextmanager
def show_gpus(gpus: Sequence[Gpu]) -> Iterator[None]:
    """Processes that start in the block see these GPUs only, and so does this one if it has not used CUDA before."""
    _shown_before.append(os.environ.get(VISIBLE))
    os.environ[VISIBLE] = ",".join(gpu.place for gpu in gpus)
    try:
        yield
    finally:
        before = _shown_before.pop()  # blocks of two threads may end in any order: the last one restores the first
        if before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = before

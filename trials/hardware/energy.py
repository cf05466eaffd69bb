"""Energy that a device itself counted while a trial trained: a GPU's board through NVML, a CPU's packages through RAPL.

Both count everything that runs on the device. A GPU that is shared is told by `EpochRecord.gpus`; a CPU's figure is
given only where this process did nearly all of the machine's work. It holds what the packages draw when idle, and no
memory modules. Where a counter cannot be read, nothing is looked at during the trial.

Sources: NVIDIA's NVML API reference (`nvmlDeviceGetTotalEnergyConsumption`: Volta or newer, in mJ since the driver was
loaded); PETSc's manual on `PetscLogGpuEnergyMeter` (that counter moves every 20 to 100 ms, so shorter intervals are
told roughly); the Linux kernel's `Documentation/power/powercap` and `drivers/powercap/intel_rapl_common.c`.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from trials.record import known_sum

POWERCAP, PROC_STAT = Path("/sys/class/powercap"), Path("/proc/stat")
MOST_WATTS = 1000.0  # no package draws more: what is beyond is a counter that was set back or ran over unseen
SLACK_S = 0.02  # two ticks of the kernel's clock, by which its times and the counter's may be off
OTHERS_SHARE = 0.1  # of the machine's work: with more of it done by others, the energy is not the trial's


class Counter(Protocol):
    """A device's counter, which runs on by itself.

    Attributes:
        period_s: It may start over after so many seconds, and has to be looked at before; infinite if it does not.
    """

    period_s: float

    def lap(self) -> float | None:
        """Joules since the lap before; None where that is not known, and at the first."""
        ...


class EnergyMeter:
    """Joules from `start` to `stop`, of a counter that may not be there."""

    def __init__(self, counter: Counter | None) -> None:
        self._counter, self._looked = counter, 0.0
        self._joules: float | None = None

    @classmethod
    def of(cls, device: torch.device) -> EnergyMeter:
        """The meter of a device; one that says None where its counter cannot be read."""
        if device.type == "cuda":
            library = nvml()
            return cls(gpu_board(library, f"GPU-{torch.cuda.get_device_properties(device).uuid}") if library else None)
        return cls(cpu_packages() if device.type == "cpu" else None)

    def start(self) -> None:
        """Count from here."""
        if self._counter:
            self._counter.lap()
            self._joules, self._looked = 0.0, time.monotonic()

    def stop(self) -> float | None:
        """Joules since the start; None where they are not known."""
        self._look()
        return self._joules

    def watched(self, pause: Callable[[], bool]) -> Callable[[], bool]:
        """`pause`, asked after every step, with a look at a counter that could start over unseen before the stop."""
        counter = self._counter
        if counter is None or math.isinf(counter.period_s):
            return pause

        def look_and_pause() -> bool:
            if time.monotonic() - self._looked > counter.period_s / 4:
                self._look()
            return pause()

        return look_and_pause

    def _look(self) -> None:
        if self._counter:
            self._joules, self._looked = known_sum((self._joules, self._counter.lap())), time.monotonic()


# --- CPUs: RAPL


@dataclass(frozen=True)
class Package:
    """A CPU package's folder of powercap.

    Attributes:
        folder: Holds `energy_uj`.
        range_uj: The counter starts over when it has counted so many microjoules.
    """

    folder: Path
    range_uj: int

    def read_uj(self) -> int:
        """The counter, in microjoules. Raises OSError, and ValueError where no number is there."""
        return int((self.folder / "energy_uj").read_text(encoding="ascii"))


def read_packages(powercap: Path = POWERCAP) -> tuple[Package, ...]:
    """All packages of the machine; none where any of them cannot be read, as a part would look like the whole.

    Not among them: their own parts (`intel-rapl:0:0`), the same packages by another way (`intel-rapl-mmio:0`), and
    `psys`, which holds them too. Since 2020 kernels let nobody but root read a counter (CVE-2020-8694).
    """
    try:
        zones = [zone for zone in sorted(powercap.iterdir()) if re.fullmatch(r"intel-rapl:\d+", zone.name)]
        folders = [zone for zone in zones if (zone / "name").read_text(encoding="ascii").startswith("package-")]
        found = [Package(f, int((f / "max_energy_range_uj").read_text(encoding="ascii"))) for f in folders]
        for package in found:
            package.read_uj()
    except (OSError, ValueError):
        return ()
    return tuple(found) if all(package.range_uj > 0 for package in found) else ()


def counted_uj(before: int, after: int, range_uj: int) -> int:
    """Microjoules between two readings of a counter that started over once at most."""
    return after - before if after >= before else after - before + range_uj


def busy_s(proc_stat: Path = PROC_STAT) -> float:
    """Seconds that all CPUs worked since the start, whoever for (proc(5), stat). Raises OSError, ValueError."""
    with proc_stat.open(encoding="ascii") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Reading:
    """The packages' counters, the clock, and the CPU seconds of this process and of the machine."""

    packages_uj: tuple[int, ...]
    clock_s: float
    own_s: float
    all_s: float


class Packages:
    """The counter of packages. `clock`: seconds on the wall; `own_work`: of this process on all CPUs."""

    def __init__(
        self,
        packages: tuple[Package, ...],
        proc_stat: Path = PROC_STAT,
        *,
        clock: Callable[[], float] = time.monotonic,
        own_work: Callable[[], float] = time.process_time,
    ) -> None:
        self._packages, self._proc_stat, self._clock, self._own_work = packages, proc_stat, clock, own_work
        self.period_s = min(package.range_uj for package in packages) / 1e6 / MOST_WATTS
        self._last: _Reading | None = None

    def lap(self) -> float | None:
        """Joules since the lap before; None if others worked too, or if a counter may have started over unseen."""
        before, self._last = self._last, self._read()
        if before is None or self._last is None:
            return None
        return self._between(before, self._last)

    def _between(self, before: _Reading, after: _Reading) -> float | None:
        passed_s, worked_s = after.clock_s - before.clock_s, after.all_s - before.all_s
        others_s = worked_s - (after.own_s - before.own_s)
        if passed_s >= self.period_s or others_s > OTHERS_SHARE * worked_s + SLACK_S:
            return None
        pairs = zip(self._packages, before.packages_uj, after.packages_uj, strict=True)
        joules = [counted_uj(first, second, package.range_uj) / 1e6 for package, first, second in pairs]
        return sum(joules) if max(joules) <= MOST_WATTS * (passed_s + SLACK_S) else None

    def _read(self) -> _Reading | None:
        try:
            counters = tuple(package.read_uj() for package in self._packages)
            return _Reading(counters, self._clock(), self._own_work(), busy_s(self._proc_stat))
        except (OSError, ValueError):
            return None


def cpu_packages(powercap: Path = POWERCAP) -> Packages | None:
    """The counter of this machine's CPUs; None where it cannot be read."""
    packages = read_packages(powercap)
    return Packages(packages) if packages else None


# --- NVIDIA GPUs: NVML, a library that comes with the driver, so no package is needed


CALLS = ("nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMigMode", "nvmlDeviceGetTotalEnergyConsumption")


class Board:
    """The counter of a GPU's board. `library` is NVML, `handle` its device."""

    period_s = math.inf  # 64 bits of millijoules

    def __init__(self, library: Any, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle
        self._last: int | None = None

    def lap(self) -> float | None:
        """Joules since the lap before; None where it cannot be read, or the driver was loaded anew."""
        before, self._last = self._last, self._read_mj()
        if before is None or self._last is None or self._last < before:
            return None
        return (self._last - before) / 1e3

    def _read_mj(self) -> int | None:
        found = ctypes.c_ulonglong()
        failed = self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle, ctypes.byref(found))
        return None if failed else found.value


def gpu_board(library: Any, uuid: str) -> Board | None:
    """The counter of a GPU by its UUID (`GPU-...`); None where it has no counter, and for a part of a GPU.

    By its UUID, as NVML counts the machine's GPUs and CUDA those that the process may see. A multi-instance GPU (MIG)
    has one counter for all of its instances.
    """
    handle, mig, pending = ctypes.c_void_p(), ctypes.c_uint(0), ctypes.c_uint(0)
    if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
        return None
    library.nvmlDeviceGetMigMode(handle, ctypes.byref(mig), ctypes.byref(pending))  # fails where there is no such mode
    board = Board(library, handle)
    board.lap()
    return None if mig.value or board.lap() is None else board


@cache
def nvml(name: str = "libnvidia-ml.so.1") -> Any:
    """The driver's library, ready for the calls above; None where there is none, or one that lacks them."""
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return None
    return library if all(hasattr(library, call) for call in CALLS) and not library.nvmlInit_v2() else None

"""Energy that a device's own counter measured during training: a GPU board's by NVML, CPU packages' by RAPL.

Both counters include everything that runs on the device. For a shared GPU see `EpochRecord.placed`; a CPU's value is
reported only if this process did nearly all of the machine's work. It includes the idle power of the packages, but not
memory modules. If a counter cannot be read, it is never polled.

Sources: NVIDIA's NVML API reference (`nvmlDeviceGetTotalEnergyConsumption`: Volta or newer, in mJ since the driver was
loaded); PETSc's manual on `PetscLogGpuEnergyMeter` (that counter is updated every 20 to 100 ms, so shorter intervals
are inaccurate); the Linux kernel's `Documentation/power/powercap` and `drivers/powercap/intel_rapl_common.c`.
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
MOST_WATTS = 1000.0  # no package draws more: a larger value means a counter that was reset or overflowed unnoticed
SLACK_S = 0.02  # two ticks of the kernel's clock, by which its times and the counter's may be off
OTHERS_SHARE = 0.1  # of the machine's work: if other processes did more, the energy is not the trial's


class Counter(Protocol):
    """A device's cumulative energy counter.

    Attributes:
        period_s: It may overflow after so many seconds and has to be read before; infinite if it does not.
    """

    period_s: float

    def lap(self) -> float | None:
        """Joules since the last call; None if unknown, and at the first call."""
        ...


class EnergyMeter:
    """Measures joules between `start` and `stop`; without a counter they are unknown."""

    def __init__(self, counter: Counter | None) -> None:
        self._counter, self._looked = counter, 0.0
        self._joules: float | None = None

    @classmethod
    def of(cls, device: torch.device) -> EnergyMeter:
        """The meter of a device; it measures None if the device has no readable counter."""
        if device.type == "cuda":
            library = nvml()
            return cls(gpu_board(library, f"GPU-{torch.cuda.get_device_properties(device).uuid}") if library else None)
        packages = read_packages() if device.type == "cpu" else ()
        return cls(Packages(packages) if packages else None)

    def start(self) -> None:
        """Start measuring."""
        if self._counter:
            self._counter.lap()
            self._joules, self._looked = 0.0, time.monotonic()

    def stop(self) -> float | None:
        """Joules since `start`; None if unknown."""
        self._look()
        return self._joules

    def watched(self, pause: Callable[[], bool]) -> Callable[[], bool]:
        """Wrap `pause`, which is called after every step, to read a counter often enough to notice an overflow."""
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


@dataclass(frozen=True)
class Package:
    """A CPU package's folder of powercap.

    Attributes:
        folder: Holds `energy_uj`.
        range_uj: The counter overflows to 0 after so many microjoules.
    """

    folder: Path
    range_uj: int

    def read_uj(self) -> int:
        """The counter, in microjoules. Raises OSError, and ValueError if it is not a number."""
        return int((self.folder / "energy_uj").read_text(encoding="ascii"))


def read_packages(powercap: Path = POWERCAP) -> tuple[Package, ...]:
    """All packages of the machine; empty if any of them cannot be read, as a part would look like the whole.

    Excluded are subdomains (`intel-rapl:0:0`), duplicates (`intel-rapl-mmio:0`) and `psys`, which includes packages.
    Since 2020 kernels let only root read the counters (CVE-2020-8694).
    """
    try:
        zones = [zone for zone in sorted(powercap.iterdir()) if re.fullmatch(r"intel-rapl:\d+", zone.name)]
        folders = [zone for zone in zones if (zone / "name").read_text(encoding="ascii").startswith("package-")]
        packages = [Package(f, int((f / "max_energy_range_uj").read_text(encoding="ascii"))) for f in folders]
        for package in packages:
            package.read_uj()
    except (OSError, ValueError):
        return ()
    return tuple(packages) if all(package.range_uj > 0 for package in packages) else ()


def counted_uj(before: int, after: int, range_uj: int) -> int:
    """Microjoules between two readings of a counter that overflowed at most once."""
    return after - before if after >= before else after - before + range_uj


def busy_s(proc_stat: Path = PROC_STAT) -> float:
    """Busy seconds of all CPUs since boot, for all processes (proc(5), stat). Raises OSError, ValueError."""
    with proc_stat.open(encoding="ascii") as file:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Reading:
    """One reading: the packages' counters, the clock, and CPU seconds of this process and of the machine."""

    packages_uj: tuple[int, ...]
    clock_s: float
    own_s: float
    all_s: float


class Packages:
    """The counter of CPU packages. `clock`: wall-clock seconds; `own_work`: CPU seconds of this process."""

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
        """Joules since the last call; None if other processes worked too, or if a counter may have overflowed."""
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


CALLS = ("nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMigMode", "nvmlDeviceGetTotalEnergyConsumption")


class Board:
    """The counter of a GPU's board. `library` is NVML, `handle` the device."""

    period_s = math.inf  # 64 bits of millijoules

    def __init__(self, library: Any, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle
        self._last: int | None = None

    def lap(self) -> float | None:
        """Joules since the last call; None if it cannot be read, or the driver was reloaded."""
        before, self._last = self._last, self._read_mj()
        if before is None or self._last is None or self._last < before:
            return None
        return (self._last - before) / 1e3

    def _read_mj(self) -> int | None:
        energy_mj = ctypes.c_ulonglong()
        failed = self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle, ctypes.byref(energy_mj))
        return None if failed else energy_mj.value


def gpu_board(library: Any, uuid: str) -> Board | None:
    """The counter of a GPU by its UUID (`GPU-...`); None if it has no counter, and for an instance of a GPU (MIG).

    UUIDs are used because NVML numbers all GPUs of the machine, and CUDA those that the process may see. All instances
    of a multi-instance GPU (MIG) share one counter.
    """
    handle, mig, pending = ctypes.c_void_p(), ctypes.c_uint(0), ctypes.c_uint(0)
    if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
        return None
    library.nvmlDeviceGetMigMode(handle, ctypes.byref(mig), ctypes.byref(pending))  # fails if the GPU has no such mode
    board = Board(library, handle)
    board.lap()
    return None if mig.value or board.lap() is None else board


@cache
def nvml(name: str = "libnvidia-ml.so.1") -> Any:
    """The driver's library, initialised; None if it is missing or lacks one of the functions above."""
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return None
    return library if all(hasattr(library, call) for call in CALLS) and not library.nvmlInit_v2() else None

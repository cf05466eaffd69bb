"""Energy is what the device counted, or it is not told: over fake counters of CPUs and GPUs."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from tests.trials.conftest import TrialMaker, records_of
from trials.hardware.energy import Board, EnergyMeter, Packages, gpu_board, nvml, read_packages

RANGE_UJ = 262_143_328_850  # of a server: 262 kJ, four minutes at a kilowatt
TICKS = os.sysconf("SC_CLK_TCK")


def write_zone(powercap: Path, zone: str, name: str, energy_uj: object, range_uj: object = RANGE_UJ) -> Path:
    folder = powercap / zone
    folder.mkdir(parents=True, exist_ok=True)
    for file, value in (("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", range_uj)):
        (folder / file).write_text(f"{value}\n")
    return folder


def write_work(path: Path, busy: float) -> Path:
    """`/proc/stat` of a machine whose CPUs worked so many seconds."""
    user, steal = int(busy * TICKS) - 6, 2
    path.write_text(f"cpu  {user} 1 1 900000 90 1 1 {steal} 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    return path


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Two packages, with all that is beside them on real machines."""
    write_zone(tmp_path, "intel-rapl", "", "")
    write_zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 700_000)
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 50_000)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 2_000_000)
    write_zone(tmp_path, "intel-rapl:2", "psys", 9_000_000)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1_000_000)
    return tmp_path


class Machine:
    """A machine with two packages, whose clock and work a test moves."""

    def __init__(self, powercap: Path, root: Path) -> None:
        self.powercap, self.stat, self.now, self.own, self.busy = powercap, root / "stat", 100.0, 50.0, 500.0
        write_work(self.stat, self.busy)
        packages = read_packages(powercap)
        self.counter = Packages(packages, self.stat, clock=lambda: self.now, own_work=lambda: self.own)

    def work(self, seconds: float, *, own: float, others: float = 0.0, uj: tuple[int, int] = (0, 0)) -> None:
        self.now, self.own, self.busy = self.now + seconds, self.own + own, self.busy + own + others
        write_work(self.stat, self.busy)
        for package, moved in zip(read_packages(self.powercap), uj, strict=True):
            (package.folder / "energy_uj").write_text(str((package.read_uj() + moved) % package.range_uj))


@pytest.fixture
def machine(powercap: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(powercap, tmp_path_factory.mktemp("proc"))


# --- Which counters


def test_packages_and_dies_are_counted_once_and_neither_their_parts_nor_the_platform(powercap: Path) -> None:
    assert [package.folder.name for package in read_packages(powercap)] == ["intel-rapl:0", "intel-rapl:1"]
    for die in (0, 1):
        write_zone(powercap / "dies", f"intel-rapl:{die}", f"package-0-die-{die}", 1)
    assert len(read_packages(powercap / "dies")) == 2
    assert read_packages(powercap / "none") == ()


@each(
    "file, value",
    [
        *(("energy_uj", value) for value in (None, "", "no number")),
        *(("max_energy_range_uj", value) for value in (None, "", "0")),
        ("name", None),
    ],
)
def test_one_counter_that_cannot_be_read_or_makes_no_sense_leaves_none(
    file: str, value: str | None, tmp_path: Path
) -> None:
    for n in (0, 1):
        zone = write_zone(tmp_path, f"intel-rapl:{n}", f"package-{n}", 1)
    assert len(read_packages(tmp_path)) == 2
    (zone / file).unlink()
    if value is not None:
        (zone / file).write_text(value)
    assert read_packages(tmp_path) == ()


# --- What a CPU's counter says


@given(start=st.integers(0, RANGE_UJ - 1), watts=st.integers(0, 1000), seconds=st.integers(1, 200))
def test_at_whatever_it_starts_a_lap_is_what_was_drawn(start: int, watts: int, seconds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        powercap = Path(name)
        write_zone(powercap, "intel-rapl:0", "package-0", start)
        write_zone(powercap, "intel-rapl:1", "package-1", 0)
        machine = Machine(powercap, powercap)
        machine.counter.lap()
        machine.work(seconds, own=seconds, uj=(watts * seconds * 10**6, 0))
        assert machine.counter.lap() == pytest.approx(watts * seconds, abs=1e-5)


def test_where_others_worked_too_the_energy_is_not_the_trials(machine: Machine) -> None:
    laps = []
    for others in (0.0, 0.5, 2.0, 0.0):
        machine.work(10, own=10, others=others, uj=(5_000_000, 5_000_000))
        laps.append(machine.counter.lap())
    assert laps == [None, 10.0, None, 10.0]


@pytest.mark.parametrize("twice", [True, False], ids=["it may have started over twice", "it was set back"])
def test_a_lap_whose_counter_cannot_be_right_is_not_known(twice: bool, machine: Machine) -> None:
    machine.counter.lap()
    machine.work(
        machine.counter.period_s + 1 if twice else 1, own=1, uj=(5_000_000 if twice else RANGE_UJ - 500_000, 0)
    )
    assert machine.counter.lap() is None


@pytest.mark.parametrize("gone", ["energy_uj", "stat"])
def test_a_file_that_vanishes_or_breaks_on_the_way_makes_two_laps_unknown(gone: str, machine: Machine) -> None:
    path = machine.stat if gone == "stat" else machine.powercap / "intel-rapl:0" / gone
    before, laps = path.read_text(), []
    for content in (before, "cpu 1 2", before, before):
        path.write_text(content)
        laps.append(machine.counter.lap())
    assert laps == [None, None, None, 0.0]


# --- What a GPU's counter says


class Driver:
    """NVML, as far as it is called: one GPU and its counter."""

    def __init__(self, *readings: int | None, mig: int = 0) -> None:
        self.readings, self.mig = iter(readings), mig

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, handle: Any) -> int:  # noqa: N802
        handle._obj.value = 7
        return 0 if uuid == b"GPU-1" else 6  # NVML_ERROR_NOT_FOUND

    def nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:  # noqa: N802
        current._obj.value = self.mig
        return 0 if self.mig else 3  # NVML_ERROR_NOT_SUPPORTED

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:  # noqa: N802
        assert handle.value == 7
        found = next(self.readings)
        energy._obj.value = found or 0
        return 3 if found is None else 0


def board(*readings: int | None) -> Board:
    found = gpu_board(Driver(5, 5, *readings), "GPU-1")
    assert found is not None
    return found


def test_a_boards_millijoules_become_joules_unless_the_driver_was_loaded_anew_or_a_reading_failed() -> None:
    gpu = board(1_005, 1_005, 2**63, 5, 10, None, 10, 12)
    laps = [1.0, 0.0, (2**63 - 1_005) / 1e3, None, 0.005, None, None, 0.002]
    assert [gpu.lap() for _ in laps] == laps


@pytest.mark.parametrize(
    ("driver", "uuid"),
    [(Driver(1, 1), "GPU-2"), (Driver(None, None), "GPU-1"), (Driver(1, 1, mig=1), "GPU-1")],
    ids=["another GPU", "no counter", "a part of a GPU"],
)
def test_a_gpu_whose_own_counter_there_is_none_of_has_no_board(driver: Driver, uuid: str) -> None:
    assert gpu_board(driver, uuid) is None


def test_without_the_driver_and_with_a_library_that_is_something_else_there_is_no_nvml() -> None:
    assert nvml("libno-such-driver.so.1") is None
    assert nvml("libc.so.6") is None


# --- The meter


class Steady:
    """A counter that moves by a joule whenever it is looked at, but for the laps that are not known."""

    def __init__(self, *unknown: int, period_s: float = math.inf) -> None:
        self.n, self.unknown, self.period_s = 0, unknown, period_s

    def lap(self) -> float | None:
        self.n += 1
        return None if self.n in self.unknown else 1.0


def test_a_meter_counts_from_start_to_stop_again_and_again() -> None:
    meter = EnergyMeter(Steady(3))
    found = []
    for _ in range(3):
        meter.start()
        found.append(meter.stop())
    assert found == [1.0, 1.0, 1.0]  # the third lap, from a stop to the next start, belongs to nobody
    meter = EnergyMeter(Steady(4))
    for known in (1.0, None, 1.0):
        meter.start()
        assert meter.stop() == known


def test_a_counter_that_could_start_over_is_looked_at_between_steps() -> None:
    counter = Steady(period_s=0.0)
    meter = EnergyMeter(counter)
    pause = meter.watched(lambda: True)
    meter.start()
    assert [pause() for _ in range(5)] == [True] * 5
    assert meter.stop() == counter.n - 1 > 1


# --- In a trial


def test_each_record_has_the_energy_of_its_own_steps(make_trial: TrialMaker) -> None:
    meter = EnergyMeter(Steady(4))
    spec = make_trial(eval_every=0.5)
    records = records_of(spec, meter=meter)
    assert [record.energy_j for record in records] == [1.0, None, 1.0, 1.0]
    assert {record.energy_j for record in records_of(make_trial(), meter=EnergyMeter(None))} == {None}

"""Energy is what a GPU's board counted, or it is not told: over a stand-in of NVML."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml
import pytest

from tests.examples import each
from tests.trials.conftest import TrialMaker, records_of
from trials.hardware.device import EnergyMeter, board_counter


class Driver:
    """One GPU: its readings in millijoules, None for an error, and whether it is split into instances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *readings: int | None, mig: bool | None = None) -> None:
        self.readings, self.mig = iter(readings), mig
        monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", self.handle)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", self.mode)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", self.total)

    def handle(self, uuid: str) -> int:
        if uuid != "GPU-1":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return 7

    def mode(self, handle: int) -> list[int]:
        if self.mig is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [int(self.mig), int(self.mig)]

    def total(self, handle: int) -> int:
        assert handle == 7
        if (found := next(self.readings)) is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        return found


@each("mig", [None, False])
def test_a_boards_millijoules_become_joules_unless_the_driver_was_loaded_anew_or_a_reading_failed(
    mig: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs: list[tuple[int | None, int | None]] = [(1_005, 2_005), (2_005, 2_005), (2_005, 5), (None, 10), (10, None)]
    Driver(monkeypatch, 1, *(reading for pair in pairs for reading in pair), mig=mig)
    meter, found = EnergyMeter(board_counter("1")), []
    for _ in pairs:
        meter.start()
        found.append(meter.stop())
    assert found == [1.0, 0.0, None, None, None]


@each("uuid, reading, mig", [("2", 1, None), ("1", None, None), ("1", 1, True)])
def test_another_gpu_one_without_a_counter_and_a_part_of_one_have_none(
    uuid: str, reading: int | None, mig: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Driver(monkeypatch, reading, mig=mig)
    assert board_counter(uuid) is None


def test_without_a_driver_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", absent)
    assert board_counter("1") is None


def test_each_record_has_the_energy_of_its_own_steps(make_trial: TrialMaker) -> None:
    readings: Iterator[float | None] = iter([0, 1, 1, None, 5, 7, 7, 10])
    records = records_of(make_trial(eval_every=0.5), meter=EnergyMeter(lambda: next(readings)))
    assert [record.energy_j for record in records] == [1.0, None, 2.0, 3.0]
    assert {record.energy_j for record in records_of(make_trial(), meter=EnergyMeter(None))} == {None}

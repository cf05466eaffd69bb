"""The memory of a worker stays where it is, trial after trial."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import write_tagged_treebank
from trials.hardware import device as memory
from trials.hardware.device import SLACK_BYTES, MemoryLevel

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """60 trials in one process."""
    treebank = write_tagged_treebank(tmp_path_factory.mktemp("bank"), train=24, dev=8, test=8)
    command = [sys.executable, "-m", "tests.trials.hardware.worker_life", str(treebank), "60"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_after_each_of_many_trials_memory_is_back_at_its_level(life: dict[str, Any]) -> None:
    megabytes, held = life["megabytes"], life["held_megabytes"]
    assert (len(megabytes), len(held)) == (60, 6)
    assert max(megabytes) <= megabytes[0] + (SLACK_BYTES >> 20) + 8
    assert max(held[3:]) <= max(held[:3]) + 64  # of 30 trials; one that kept its weights would add 9 MB each
    assert life["settled"]


GIB = 1 << 30
LIMIT = 2 * GIB + SLACK_BYTES


@pytest.mark.parametrize(
    ("readings", "settled", "level"),
    [
        ([10 * GIB, 9 * GIB], [True], 9 * GIB),  # the first trial's memory is the level
        ([GIB, GIB, 9 * GIB, GIB], [True, True], GIB),  # what was only free and not given back is no growth
        ([GIB, GIB, LIMIT, LIMIT, LIMIT + 1, LIMIT + 1], [True, True, False], GIB),  # twice the level is worn
    ],
)
def test_a_worker_is_worn_that_holds_twice_the_level_of_its_first_trial(
    readings: list[int], settled: list[bool], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, worker = iter(readings), MemoryLevel()
    monkeypatch.setattr(memory, "resident_bytes", lambda: next(rest))
    assert [worker.settle() for _ in settled] == settled
    assert worker.host_bytes == level

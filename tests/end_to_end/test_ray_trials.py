"""A driver on a real Ray and trials that set up slowly, eat memory, leave some behind, or are many."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import environment
from tests.orchestrator.engines.courses import EXPECTED

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def ran(kind: str, folder: Path) -> dict[str, Any]:
    """What `ray_trials` says of trials of a kind."""
    command = [sys.executable, "-m", "tests.end_to_end.ray_trials", kind, str(folder / "store")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_trials_end_on_ray_as_they_do_inline_in_each_way_that_there_is(tmp_path: Path) -> None:
    found = ran("every_end", tmp_path)
    assert {seed: tuple(end) for seed, end in found["ends"]} == EXPECTED


def test_the_driver_hears_how_far_the_set_up_in_a_worker_is(tmp_path: Path) -> None:
    found = ran("slow_set_up", tmp_path)
    shares = [re.fullmatch(r"encoding x train: (\d+) of 12 sentences", line) for line in found["heard"]]
    numbers = [int(share[1]) for share in shares if share]
    assert (len(numbers) >= 1, found["states"]) == (True, ["completed"])
    assert numbers == sorted(set(numbers))


def test_a_worker_that_the_memory_monitor_kills_is_tried_again_in_less_memory_and_the_sweep_goes_on(
    tmp_path: Path,
) -> None:
    found = ran("hungry", tmp_path)
    assert {state for state, _ in found.values()} == {"completed"}
    assert found["1"][1] >= 2


def test_a_worker_whose_trials_leave_memory_is_replaced_and_every_trial_completes(tmp_path: Path) -> None:
    found = ran("leaky", tmp_path)
    assert found["states"] == {"completed": 12}
    assert len(found["workers"]) >= 3
    assert max(found["workers"].values()) <= 6


def test_short_trials_use_every_slot_with_a_worker_each(tmp_path: Path) -> None:
    found = ran("short", tmp_path)
    assert found["states"] == {"completed": 500}
    assert len(found["workers"]) == 2
    assert min(found["workers"].values()) >= 20

"""A worker says how far a long set-up is, while Tune hears nothing of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import environment

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def test_the_driver_hears_how_far_the_set_up_in_a_worker_is(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.end_to_end.slow_set_up", str(tmp_path / "store")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    shares = [re.fullmatch(r"encoding x train: (\d+) of 12 sentences", line) for line in found["heard"]]
    numbers = [int(share[1]) for share in shares if share]
    assert (len(numbers) >= 1, found["states"]) == (True, ["completed"])
    assert numbers == sorted(set(numbers))

"""A worker that Ray's memory monitor kills costs its own trial an attempt, and nobody else anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import environment

pytestmark = pytest.mark.timeout(240)


@pytest.mark.cluster  # the monitor looks at the whole machine, so nothing else may grow meanwhile
def test_a_killed_worker_is_tried_again_in_less_memory_and_the_sweep_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.end_to_end.hungry_sweep", str(tmp_path / "store")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {state for state, _ in found.values()} == {"completed"}
    assert found["1"][1] >= 2

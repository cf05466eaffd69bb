"""A worker that grows from trial to trial is replaced, and no trial is lost by that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]  # its parts: test_worker_life, test_trainable


def test_a_worker_whose_trials_leave_memory_is_replaced_and_every_trial_completes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.end_to_end.leaky_sweep", str(tmp_path / "store")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["states"] == {"completed": 12}
    assert len(found["workers"]) >= 3
    assert max(found["workers"].values()) <= 6
    assert "Traceback" not in done.stderr

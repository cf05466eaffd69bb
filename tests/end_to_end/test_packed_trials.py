"""Trials that share a GPU: memory that runs out costs an attempt, an error of CUDA a worker, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.conftest import environment
from tests.end_to_end.packed_sweep import BROKEN

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def test_without_memory_trials_run_again_as_they_are_with_fewer_beside_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.end_to_end.packed_sweep", str(tmp_path / "store")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["before"] == "one trial alone, then at most 4 trials at a time, 0.25 of a GPU each"
    assert found["after"] == "2 trials at a time, 0.5 of a GPU each"
    assert [line.partition(": ")[2] for line in found["said"]] == [
        "4 trials on a GPU from now on", "2 trials on a GPU from now on",
    ]  # fmt: skip
    rows = {row.pop("seed"): row for row in found["rows"]}
    broken = rows.pop(BROKEN)
    assert broken["state"] == "failed"
    assert {(row["state"], row["accumulation"]) for row in rows.values()} == {("completed", 1)}
    assert {row["gpus"] for row in rows.values()} <= {0.25, 0.5}
    assert any(row["attempt"] == 2 for row in rows.values())
    pid = broken["error"].rpartition(" ")[2]
    assert rows[BROKEN + 1]["device"] != f"worker {pid}"

"""A worker that Ray's memory monitor kills costs its own trial an attempt, and nobody else anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray.air.execution._internal import RayActorManager
from ray.exceptions import OutOfMemoryError, RayActorError

from orchestrator.ray_backend.oom_patch import killed_workers_are_lost
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


def test_tune_hears_of_a_killed_worker_as_of_a_dead_actor_and_only_inside() -> None:
    before, heard = RayActorManager._actor_task_failed, list[Exception]()
    actor = SimpleNamespace(actor_id=1, _on_error=lambda actor, error: heard.append(error))
    task = SimpleNamespace(_tracked_actor=actor, _on_error=None)
    manager = SimpleNamespace(_failed_actor_ids=set(), _cleanup_actor=lambda tracked_actor: None)
    with killed_workers_are_lost():
        for error in (OutOfMemoryError("18 workers were killed\nand more"), RayActorError(error_msg="it died")):
            RayActorManager._actor_task_failed(manager, tracked_actor_task=task, exception=error)
    assert [str(error) for error in heard] == ["OutOfMemoryError: 18 workers were killed", "it died"]
    assert RayActorManager._actor_task_failed is before
    with pytest.raises(RuntimeError, match="unexpected exception"):  # else the above would not be needed any more
        RayActorManager._actor_task_failed(manager, tracked_actor_task=task, exception=OutOfMemoryError("gone"))

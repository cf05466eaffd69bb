"""Tune's folder lasts as long as its driver; what killed ones left is removed by the next."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from orchestrator.ray_backend.driver import tune_folder


def test_the_folder_of_a_killed_driver_is_removed_and_that_of_a_running_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, foreign = tmp_path / "permafrost-tune-killed", tmp_path / "permafrost-tune-foreign"
    for folder in (killed, foreign):
        folder.mkdir()
    (killed / "lock").touch()
    with tune_folder() as running:
        with tune_folder():
            assert running.exists()
        assert (killed.exists(), foreign.exists()) == (False, True)
    assert not running.exists()

"""A variable that Ray would misunderstand: one line and the right exit code, before any Ray is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Here


@pytest.mark.parametrize("cluster", ["local", "auto"])
def test_what_ray_would_misunderstand_is_refused_in_one_line(
    here: Here, sweep: Path, monkeypatch: pytest.MonkeyPatch, cluster: str
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "enabled")
    done = here("launch", "--sweep", sweep, "--store", "store", "--cluster", cluster)
    assert done.exit_code == 2, done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert "RAY_AUTH_MODE='enabled' is neither token nor disabled" in error

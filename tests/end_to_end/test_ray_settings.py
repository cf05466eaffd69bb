"""Variables that Ray would misunderstand: one line and the right exit code, before any Ray is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import Here

LONG = "/tmp/" + "x" * 60


@pytest.mark.parametrize(
    ("cluster", "name", "value", "code", "said"),
    [
        ("local", "RAY_AUTH_MODE", "enabled", 2, "RAY_AUTH_MODE='enabled' is neither token nor disabled"),
        ("auto", "RAY_AUTH_MODE", "enabled", 2, "RAY_AUTH_MODE='enabled' is neither token nor disabled"),
        ("local", "RAY_TMPDIR", LONG, 2, "bytes too long for Ray's sockets"),
        ("local", "RAY_TMPDIR", "/proc/nothing", 3, "cannot be written"),
        ("auto", "RAY_AUTH_TOKEN_PATH", "/absent", 3, "RAY_AUTH_TOKEN_PATH names /absent, which cannot be read"),
    ],
)
def test_what_ray_would_misunderstand_is_refused_in_one_line(
    here: Here, sweep: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, name: str, value: str, code: int, said: str
) -> None:
    for one in ("RAY_AUTH_MODE", "RAY_TMPDIR", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv(name, value)
    done = here("launch", "--sweep", sweep, "--store", "store", "--cluster", cluster)
    assert done.exit_code == code, done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert said in error


def test_a_token_that_other_users_can_read_is_not_sent_to_a_cluster(
    here: Here, sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("x" * 32)
    token.chmod(0o644)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    done = here("launch", "--sweep", sweep, "--store", "store", "--cluster", "auto")
    assert (done.exit_code, f"run: chmod 600 {token}" in done.stderr) == (4, True), done.stderr

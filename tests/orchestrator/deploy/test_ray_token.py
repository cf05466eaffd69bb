"""Whether Ray requires a token, and who can read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.deploy.ray_session import check_client_token, is_required, token_file
from tests.examples import each
from trials.errors import ConfigError, RefusedError


@each("mode, required", [(None, True), ("token", True), ("Token", True), ("disabled", False)])
def test_a_token_is_required_unless_the_mode_is_disabled(mode: str | None, required: bool) -> None:
    assert is_required({} if mode is None else {"RAY_AUTH_MODE": mode}) is required


@each("mode", ["", "enabled", "off", "k8s", "token ", "1"])
def test_a_mode_that_ray_would_take_for_none_is_refused(mode: str) -> None:
    with pytest.raises(ConfigError, match="neither token nor disabled") as caught:
        check_client_token({"RAY_AUTH_MODE": mode})
    assert caught.value.exit_code == 2


@each("mode", [0o644, 0o640, 0o604])
@each("named", [True, False])
def test_a_token_that_other_users_can_read_is_refused_with_the_command_that_closes_it(
    tmp_path: Path, mode: int, named: bool
) -> None:
    file = tmp_path / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_text("x" * 64)
    file.chmod(mode)
    world = {"RAY_AUTH_TOKEN_PATH": str(file)} if named else {"HOME": str(tmp_path)}
    with pytest.raises(RefusedError, match=f"run: chmod 600 {file}"):
        check_client_token(world)
    assert check_client_token(world | {"RAY_AUTH_TOKEN": "x" * 64})  # Ray does not read the file then
    assert not check_client_token(world | {"RAY_AUTH_MODE": "disabled"})
    file.chmod(0o600)
    assert token_file(world) == file


@pytest.mark.parametrize("name", ["absent", ".", "x" * 300])
def test_a_token_path_without_a_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="RAY_AUTH_TOKEN_PATH names") as caught:
        check_client_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / name)})
    assert caught.value.exit_code == 3

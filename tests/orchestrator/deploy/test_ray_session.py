"""The folder that a local Ray has to itself."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.deploy.ray_session import (
    check_client_token,
    is_required,
    new_token,
    session_folder,
    token_file,
    user_folder,
)
from tests.examples import each
from trials.errors import ConfigError, RefusedError

NOBODY = 65534


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose name leaves room for those of sockets."""
    with tempfile.TemporaryDirectory(prefix="pf-", dir="/tmp") as folder:
        yield Path(folder)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_token_is_the_owners_alone_whatever_the_umask_and_a_folder_that_was_open_is_closed(short: Path) -> None:
    world, before = {"RAY_TMPDIR": str(short)}, os.umask(0)
    try:
        user_folder(world).mkdir(mode=0o777)
        with session_folder(world) as folder:
            token = new_token(folder)
            assert (mode(token), mode(folder.parent)) == (0o600, 0o700)
    finally:
        os.umask(before)


def test_launches_have_a_folder_and_a_token_each_and_remove_what_a_dead_one_left(short: Path) -> None:
    world = {"RAY_TMPDIR": str(short)}
    with session_folder(world) as one, session_folder(world) as other:
        assert one != other
        assert new_token(one).read_text() != new_token(other).read_text()
        (one / "session" / "logs").mkdir(parents=True)
    assert (one / "session").exists()  # for whoever wants to know why a launch failed
    with session_folder(world) as again:
        assert (again, list(again.iterdir())) == (one, [])


def fits(folder: Path) -> bool:
    try:
        return bool(user_folder({"RAY_TMPDIR": str(folder)}))
    except ConfigError:
        return False


def test_the_longest_folder_that_is_accepted_has_just_room_for_rays_sockets(short: Path) -> None:
    longest = next(short / ("x" * n) for n in range(1, 60) if not fits(short / ("x" * (n + 1))))
    name = f"session_2026-11-23_01-18-47_978669_{os.getpid()}/sockets/dash_MetricsHead"
    address = user_folder({"RAY_TMPDIR": str(longest)}) / "10" / name
    address.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(address))
        with pytest.raises(OSError, match="too long"):
            one.bind(f"{address}x")
    shutil.rmtree(longest)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_folder_that_another_user_has_put_there_is_refused(short: Path) -> None:
    world = {"RAY_TMPDIR": str(short)}
    user_folder(world).mkdir()
    os.chown(user_folder(world), NOBODY, NOBODY)
    with pytest.raises(RefusedError, match="not a folder of this user"), session_folder(world):
        pass


@each("name", ["жоба", "Ünï", "it's", 'a"b', "a\\b"])
def test_a_folder_that_ray_cannot_use_is_refused_where_it_was_meant_and_left_alone_where_not(
    name: str, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="Ray takes no path with quotes, backslashes or letters beyond ASCII"):
        user_folder({"RAY_TMPDIR": str(short / name)})
    monkeypatch.setattr(tempfile, "tempdir", str(short / name))
    assert user_folder({}).parent == Path("/tmp")


# --- Whether Ray requires a token, and who can read it.


def test_a_token_is_required_unless_the_mode_is_disabled_and_a_mode_that_is_none_is_refused() -> None:
    assert is_required({})
    assert [is_required({"RAY_AUTH_MODE": mode}) for mode in ("token", "Token", "disabled")] == [True, True, False]
    for mode in ("", "enabled", "off", "k8s", "token ", "1"):
        with pytest.raises(ConfigError, match="neither token nor disabled") as caught:
            check_client_token({"RAY_AUTH_MODE": mode})
        assert caught.value.exit_code == 2
    for path in ("/absent", "/", "/" + "x" * 300):
        with pytest.raises(ConfigError, match="RAY_AUTH_TOKEN_PATH names") as caught:
            check_client_token({"RAY_AUTH_TOKEN_PATH": path})
        assert caught.value.exit_code == 3


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

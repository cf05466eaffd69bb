"""What an access may be, and where its token comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.serving.access import Access, read_access
from tests.dashboards.serving.visitors import TOKEN
from tests.examples import each
from trials.errors import ConfigError, RefusedError


@each("host", ["127.0.0.1", "127.0.0.53", "localhost", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    assert Access(host=host).on_loopback


@each("host", ["0.0.0.0", "::", "192.0.2.7", "node7", "localhost.example.org", "127.0.0.1.nip.io"])
def test_any_other_host_needs_a_token_and_the_refusal_says_how(host: str) -> None:
    with pytest.raises(RefusedError, match=r"PERMAFROST_DASHBOARD_TOKEN.*--token-file.*ssh") as caught:
        read_access(host=host, environ={})
    assert caught.value.exit_code == 4
    assert read_access(host=host, environ={"PERMAFROST_DASHBOARD_TOKEN": TOKEN}).token == TOKEN


def test_all_that_is_wrong_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        Access(host="", port=70_000, token="short", trusted_hosts=(".example.org", "http://a", "fine.example.org"))
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "host", "trusted host", "trusted host", "port", "token"
    ]  # fmt: skip


@each("token", ["", "x" * 15, "x" * 1025, "x" * 20 + "\n", "two words and a space", "ключ" * 8])
def test_a_token_is_long_and_visible(token: str) -> None:
    with pytest.raises(ConfigError, match="visible ASCII"):
        Access(token=token)


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(Access(token=TOKEN))


def test_a_token_file_is_read_without_its_newline_and_goes_before_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(f"{TOKEN}\n")
    assert read_access(token_file=file, environ={"PERMAFROST_DASHBOARD_TOKEN": "y" * 20}).token == TOKEN


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620])
def test_a_token_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(mode)
    with pytest.raises(RefusedError, match="chmod 600"):
        read_access(token_file=file, environ={})


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_token_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"token file: .* cannot be read") as caught:
        read_access(token_file=tmp_path / name, environ={})
    assert caught.value.exit_code == 3

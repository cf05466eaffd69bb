"""What an access may be, and where its token comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.serving.access import Access, read_access
from tests.dashboards.serving.visitors import TOKEN
from tests.examples import each
from trials.errors import ConfigError, RefusedError

GIVEN = {"PERMAFROST_DASHBOARD_TOKEN": TOKEN}


def test_a_token_is_made_where_none_is_given_on_loopback_too() -> None:
    one, other = read_access(environ={}), read_access(environ={})
    assert (one.host, one.token_is_new, len(one.token or "") >= 32) == ("127.0.0.1", True, True)
    assert one.token != other.token
    given = read_access(environ=GIVEN)
    assert (given.token, given.token_is_new) == (TOKEN, False)
    assert read_access(no_token=True, environ=GIVEN).token is None


@each("host", ["127.0.0.1", "127.0.0.53", "localhost", "::1"])
def test_a_loopback_address_can_do_without(host: str) -> None:
    assert read_access(host=host, no_token=True).on_loopback


@each("host", ["0.0.0.0", "::", "192.0.2.7", "node7", "localhost.example.org", "127.0.0.1.nip.io"])
def test_any_other_host_cannot_and_the_refusal_says_what_to_do(host: str) -> None:
    with pytest.raises(RefusedError, match=r"--no-token.*ssh") as caught:
        read_access(host=host, no_token=True)
    assert caught.value.exit_code == 4
    assert read_access(host=host, environ=GIVEN).token == TOKEN


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
    access = read_access(token_file=file, environ={"PERMAFROST_DASHBOARD_TOKEN": "y" * 20})
    assert (access.token, access.token_is_new) == (TOKEN, False)
    with pytest.raises(ConfigError, match="exclude each other"):
        read_access(token_file=file, no_token=True)
    file.chmod(0o640)
    with pytest.raises(RefusedError, match="chmod 600"):
        read_access(token_file=file, environ={})


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_token_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"token file: .* cannot be read") as caught:
        read_access(token_file=tmp_path / name, environ={})
    assert caught.value.exit_code == 3


@each("prefix", ["p", "/p//q", "/..", "/p?x", "/p q", "https://example.org/p"])
def test_what_is_no_path_is_refused_with_what_is_one(prefix: str) -> None:
    with pytest.raises(ConfigError, match=r"url prefix: .*a path like /user/ana/proxy/8050 is needed"):
        Access(url_prefix=prefix)

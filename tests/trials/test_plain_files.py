"""Only plain files of bounded size are read, and a digest is that of the bytes that are there now."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.examples import each
from trials.outside.plain_files import NotPlainError, digest_of, open_plain, read_bytes, read_json, read_text, stamp_of

READERS: list[Callable[..., Any]] = [read_bytes, read_text, read_json, digest_of]


@each("read", READERS)
@each("target", ["/dev/zero", "/dev/tty", "/proc/self/environ", "pipe"])
def test_what_is_no_plain_file_is_refused_at_once(read: Callable[..., Any], target: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(NotPlainError, match="not a regular file"):
        read(tmp_path / "link")


@each("read", READERS)
def test_what_is_larger_than_it_may_be_is_refused_before_it_is_read(read: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", 1 << 40)
    with pytest.raises(NotPlainError, match="larger than the"):
        read(tmp_path / "a")


def test_a_file_that_grows_while_it_is_read_is_not_read_in_part(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    with open_plain(path) as file, path.open("ab") as writer:
        writer.write(b"d" * 9)
        writer.flush()
        assert file.read() == b"abc" + b"d" * 9
    before = stamp_of(path)
    os.truncate(path, 5)
    assert stamp_of(path) != before


def test_a_digest_follows_an_edit_of_the_same_length_under_the_old_time(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content in (b"abc", b"abd"):
        path.write_bytes(content)
        os.utime(path, ns=(1, 1))
        assert digest_of(path) == hashlib.sha256(content).digest()

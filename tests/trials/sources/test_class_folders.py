"""Texts in folders of classes become JSON lines in the cache, which are those of the texts as they are now."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trials.sources.split_files import find_class_folders, write_class_folders


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    for name in ("neg", "pos"):
        (tmp_path / "texts" / name).mkdir(parents=True)
        for n in range(3):
            (tmp_path / "texts" / name / f"{n}.txt").write_text(f"{name} {n}")
    return tmp_path / "texts"


def lines(folder: Path) -> tuple[Path, list[str]]:
    """The file in the cache, and its texts."""
    found = find_class_folders(folder)
    assert found is not None
    (path,) = map(Path, write_class_folders(found)["train"])
    return path, [json.loads(line)["text"] for line in path.read_text().splitlines()]


def edit(path: Path) -> None:
    status = path.stat()
    path.write_text(path.read_text().replace("neg", "nag"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    "damage",
    [edit, lambda path: os.truncate(path, 9), Path.unlink, lambda path: (path.parent / "manifest.json").unlink()],
)
def test_lines_that_changed_in_the_cache_are_written_again(damage: Callable[[Path], object], folder: Path) -> None:
    path, texts = lines(folder)
    damage(path)
    assert lines(folder) == (path, texts)
    written = path.stat()
    assert (lines(folder), path.stat()) == ((path, texts), written)


def test_a_text_that_was_edited_under_its_old_size_and_time_is_read_again(folder: Path) -> None:
    _, texts = lines(folder)
    edit(folder / "neg" / "0.txt")
    assert lines(folder)[1] == ["nag 0", *texts[1:]]

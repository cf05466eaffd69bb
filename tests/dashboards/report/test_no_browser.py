"""A Chromium that does not start ends in one line, and a report goes on without pictures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery
from dashboards.report import pictures
from dashboards.report.files import write_report
from dashboards.report.pictures import FigureRenderer
from tests.dashboards.stores import specs, write_store
from trials.errors import MissingError


@pytest.fixture
def sleeper(tmp_path: Path) -> Path:
    """A program that starts and never answers, with a process of its own."""
    program = tmp_path / "sleeper"
    program.write_text("#!/bin/sh\nsleep 87654\n")
    program.chmod(0o755)
    return program


def test_a_chromium_that_ends_at_once_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMAFROST_CHROMIUM", "/bin/false")
    with pytest.raises(MissingError, match=r"The browser /bin/false does not start \(.*\)\. Try "), FigureRenderer():
        pass


def test_a_chromium_that_never_answers_is_ended_at_the_limit(monkeypatch: pytest.MonkeyPatch, sleeper: Path) -> None:
    monkeypatch.setenv("PERMAFROST_CHROMIUM", str(sleeper))
    monkeypatch.setattr(pictures, "START_S", 1.0)
    with pytest.raises(MissingError, match="does not start within 1 s"), FigureRenderer():
        pass
    assert subprocess.run(["pgrep", "-f", "sleep 87654"], capture_output=True, check=False).stdout == b""


def test_a_report_goes_on_without_pictures_and_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERMAFROST_CHROMIUM", "/bin/false")
    store = write_store(tmp_path / "store", specs(seeds=(0, 1), train_sizes=(200,)))
    written = write_report(Frames(store), PageQuery(sweep="made-up"), tmp_path / "out")
    assert written.html.exists()
    assert written.no_pictures.startswith("The browser /bin/false does not start")

"""The log in JSON: a line an event, read back by a program."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.monitoring.json_log import JsonLog
from orchestrator.monitoring.progress import Ending
from tests.builders import make_record, make_spec
from trials.cache.set_up_work import SetUpWork
from trials.state import State

AT = datetime(2026, 11, 21, 22, 15, 2, 125_000, UTC)
SPEC = make_spec()


def refuse(message: str) -> None:
    raise AssertionError(message)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_event_is_a_line_with_time_level_sweep_and_trial(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log", "tiny", refuse, lambda: AT)
    log.launched(planned=2, skipped=1, store="results")
    log.started(SPEC, 3)
    log.preparing(SPEC, SetUpWork("encoding x train", 2_000, "sentences", 1_200))
    log.evaluated(SPEC, make_record(epoch=2.0, score=0.5))
    log.retried(SPEC, State.LOST, "its worker was lost")
    log.started(SPEC, 4)
    log.ended(SPEC, State.COMPLETED, None)
    log.over(Ending("done", None, {State.COMPLETED: 1}, 0, 3.0))
    told = lines(tmp_path / "log")
    assert [entry["event"] for entry in told] == [
        "launched", "started", "preparing", "evaluated", "retried", "started", "ended", "done",
    ]  # fmt: skip
    assert [entry.get("attempt") for entry in told] == [None, 3, 3, 3, 3, 4, 4, None]
    assert {key: told[2][key] for key in ("work", "done", "total", "unit")} == {
        "work": "encoding x train", "done": 1_200, "total": 2_000, "unit": "sentences",
    }  # fmt: skip
    assert told[3] == {
        "time": "2026-11-21T22:15:02.125Z", "level": "info", "event": "evaluated", "sweep": "tiny",
        "trial_id": SPEC.trial_id, "attempt": 3, "label": SPEC.label, "epoch": 2.0, "step": 13, "score": 0.5,
    }  # fmt: skip
    assert (told[4]["level"], told[4]["state"]) == ("warning", "lost")
    assert told[-1]["trials"] == {"completed": 1}


def test_a_failed_trial_is_an_error_told_by_what_happened_without_secrets_and_a_score_that_is_no_number_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "hunter22")
    log = JsonLog(tmp_path / "log", "tiny", refuse)
    log.ended(SPEC, State.FAILED, "Traceback\n  File x\nOSError: https://me:pw@host refused hunter22")
    entry = lines(tmp_path / "log")[0]
    assert (entry["level"], entry["error"]) == ("error", "OSError: https://***@host refused ***")
    for score in (float("nan"), float("inf")):
        log.evaluated(SPEC, make_record(score=score))
        assert lines(tmp_path / "log")[-1]["score"] is None


@given(error=st.text(min_size=1))
def test_whatever_an_error_says_it_stays_one_line(error: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    JsonLog(path, "tiny", refuse).retried(SPEC, State.UNAVAILABLE, error or None)
    assert len(path.read_bytes().splitlines()) == 1
    assert lines(path)[0]["event"] == "retried"


def test_a_moved_file_is_written_anew_and_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = JsonLog(Path("log"), "tiny", refuse)
    log.started(SPEC, 1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "log").rename(tmp_path / "log.1")
    log.started(SPEC, 2)
    assert [entry["attempt"] for name in ("log.1", "log") for entry in lines(tmp_path / name)] == [1, 2]


def test_a_log_that_cannot_be_written_is_told_once_and_the_sweep_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    log = JsonLog(tmp_path / "absent" / "log", "tiny", said.append)
    log.started(SPEC, 1)
    log.ended(SPEC, State.COMPLETED, None)
    assert len(said) == 1
    assert "No such file or directory. The sweep continues." in said[0]

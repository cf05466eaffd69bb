"""A sweep is asked to stop through its store."""

from __future__ import annotations

import contextlib
import io
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from orchestrator.commands.stop_command import stop as stop_command
from orchestrator.config.console import errors_as_exit_codes
from orchestrator.config.signals import TELLER
from orchestrator.execution import stop_request as stop_module
from orchestrator.execution.stop_request import StopRequest, ask_to_stop
from orchestrator.store import ResultStore
from tests.examples import each


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    monkeypatch.setattr(stop_module, "POLL_S", 0.01)
    results = ResultStore(tmp_path / "store")
    results.create()
    return results


def test_a_request_in_the_store_stops_the_sweep_says_who_asked_and_is_not_left_behind(store: ResultStore) -> None:
    stop, said = StopRequest(), list[str]()
    with stop.on_requests(store.storage, "mine", said.append):
        ask_to_stop(store.storage, "mine", "ann@desk")
        while not stop.asked:
            time.sleep(0.01)
    assert (stop.exit_code, stop.asker) == (143, "ann@desk")
    assert said == ["Stopping at the request of ann@desk: running trials continue to their next evaluation."]
    assert not store.storage.subfolder("stops").subfolder("mine").files()


def test_a_request_for_another_sweep_or_from_before_stops_nothing(store: ResultStore) -> None:
    ask_to_stop(store.storage, "mine", "ann@desk")
    stop = StopRequest()
    with stop.on_requests(store.storage, "mine", lambda line: None):
        ask_to_stop(store.storage, "another", "ann@desk")
        time.sleep(0.1)
    assert not stop.asked


@each("sweep", ["mine", "../mine", "a/../../b", ""])
def test_a_sweep_that_nobody_runs_cannot_be_stopped_whatever_its_name(store: ResultStore, sweep: str) -> None:
    with pytest.raises(typer.Exit) as ended:
        stop_command(store.address, sweep)
    assert ended.value.exit_code == 5
    assert not list(store.root.parent.glob("**/*.txt"))


@pytest.mark.parametrize("goes_on", [False, True])
def test_what_sigterm_cuts_off_may_fail_in_its_own_way_and_the_block_still_ends_by_the_signal(goes_on: bool) -> None:
    stop = StopRequest()
    with pytest.raises(SystemExit) as ended, stop.signals.handle_signals(print):  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit as cut:
            if goes_on:
                stop.signals.on_trials_end()
            raise AttributeError("partially initialized module") from cut
    assert ended.value.code == signal.SIGTERM or goes_on
    with pytest.raises(AttributeError), StopRequest().signals.handle_signals(print):
        raise AttributeError("of its own")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_every_signal_that_ends_a_job_stops_trials_and_says_itself_in_the_exit_code(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)  # also where `nohup` runs the tests; a signal that is ignored stays so
    stop = StopRequest()
    with stop.signals.handle_signals(lambda line: None):
        stop.signals.on_trials_start(lambda: False)
        signal.raise_signal(number)
        stop.signals.on_trials_end()
    assert stop.exit_code == 128 + number
    with pytest.raises(typer.Exit) as ended, errors_as_exit_codes(), StopRequest().signals.handle_signals(print):
        signal.raise_signal(number)  # before the first trial
    assert ended.value.exit_code == 128 + number
    with pytest.raises(SystemExit), errors_as_exit_codes():
        raise SystemExit(1)  # which is no SIGHUP


def test_a_terminal_that_closes_ends_nothing_that_runs_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop = StopRequest()
        with stop.signals.handle_signals(print):
            stop.signals.on_trials_start(lambda: False)
            signal.raise_signal(signal.SIGHUP)
        assert not stop.asked
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_a_library_has_swallowed_ends_the_block_before_the_first_trial() -> None:
    stop = StopRequest()
    with pytest.raises(KeyboardInterrupt), stop.signals.handle_signals(print):  # noqa: PT012
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        stop.signals.on_trials_start(lambda: False)


@pytest.mark.parametrize(("left", "code"), [(True, 130), (False, 1)])
def test_a_signal_while_trials_run_is_the_reason_of_the_end_if_any_trial_is_left(left: bool, code: int) -> None:
    stop, said = StopRequest(), list[str]()
    with stop.signals.handle_signals(said.append):
        stop.signals.on_trials_start(lambda: False)
        signal.raise_signal(signal.SIGINT)
        stop.signals.on_trials_end()
    stop.settle(all_ran=not left, left=int(left), max_trials=None)
    assert (stop.asked, stop.exit_code, len(said)) == (left, code, 1)


class Interrupting(io.RawIOBase):
    """Notes what is written; the first write is interrupted by Ctrl-C."""

    def __init__(self) -> None:
        self.written = list[bytes]()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.written.append(bytes(content))
        if len(self.written) == 1:
            signal.raise_signal(signal.SIGINT)
        return len(content)


def test_ctrl_c_in_the_middle_of_a_line_is_told_after_it_and_does_no_harm() -> None:
    raw, stop = Interrupting(), StopRequest()
    stream = io.BufferedWriter(raw)

    def say(line: str) -> None:
        stream.write(f"{line}\n".encode())
        stream.flush()

    with stop.signals.handle_signals(say):
        stop.signals.on_trials_start(lambda: False)
        say("1/4 completed")
        stop.signals.on_trials_end()
    for thread in threading.enumerate():
        if thread.name == TELLER:
            thread.join()
    told = b"".join(raw.written).decode().splitlines()
    assert (stop.exit_code, [line.split()[0] for line in told]) == (130, ["1/4", "Stopping:"])


def test_only_the_third_signal_does_not_wait_for_a_storage_that_does_not_answer() -> None:
    stop, said = StopRequest(), list[str]()
    with pytest.raises(KeyboardInterrupt), stop.signals.handle_signals(said.append):  # noqa: PT012
        stop.signals.on_trials_start(lambda: True)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        assert said[-1].startswith("Saving the last trials first.")
        signal.raise_signal(signal.SIGINT)

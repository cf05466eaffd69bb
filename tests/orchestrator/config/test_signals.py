"""A process that ends with its command: the exit code of the command stays, whatever signal comes while Python ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from orchestrator.config.signals import Signals
from tests.examples import each

PROGRAM = """
import signal, sys
from orchestrator.config.signals import Signals, end_with_command

class Last:
    def __del__(self, send=signal.raise_signal):
        send({number})

end_with_command()
last = Last()
signals = Signals(lambda number: True)
with signals.handle_signals(print):
    signals.on_trials_start(lambda: True)
    signals.on_trials_end()
    with signals.protect_commit():
        pass
{after}
sys.exit(7)
"""


@each("number", [2, 15])
@each("after", ["", "signal.raise_signal({number})"])
def test_a_signal_between_the_end_of_a_command_and_that_of_its_process_changes_nothing(number: int, after: str) -> None:
    program = PROGRAM.format(number=number, after=after.format(number=number))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


def test_a_launch_in_a_thread_handles_no_signal_and_ends_without_an_error() -> None:
    before, ended = signal.getsignal(signal.SIGINT), list[bool]()

    def run() -> None:
        with Signals(lambda number: False).handle_signals(print):
            ended.append(signal.getsignal(signal.SIGINT) == before)
        ended.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended == [True, True]

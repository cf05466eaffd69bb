"""Processes for the tests of joining: some that want a store alone, and one that has it.

python -m tests.orchestrator.claims.join_race FOLDER HOST STALE_S
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from orchestrator.claims import BusyStoreError, RemovedError, Timing, join
from orchestrator.claims.holder import this_process
from orchestrator.storage.storage import FolderStorage


def race(folder: Path, rounds: int, barrier: Barrier, told: Queue[tuple[int, str]]) -> None:
    """Ask once a round, at the same time as the others; tell "held" or "refused", and "held twice" if it ever is."""
    inside = folder / "inside"
    for number in range(rounds):
        barrier.wait(60)
        try:
            with join(FolderStorage(folder), "s", alone=True, say=lambda _: None) as membership:
                word = "held"
                try:
                    inside.touch(exist_ok=False)
                except FileExistsError:
                    word = "held twice"
                membership.check()
                barrier.wait(60)  # it holds until the others have been refused
                inside.unlink(missing_ok=True)
        except BusyStoreError:
            word = "refused"
            barrier.wait(60)
        told.put((number, word))
    barrier.wait(60)


def main() -> None:
    folder, host, stale_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    me = this_process("s")
    timing = Timing(beat_s=stale_s / 20, stale_s=stale_s)
    with join(
        FolderStorage(folder), "s", alone=True, say=print, timing=timing, me=replace(me, host=host or me.host)
    ) as membership:
        sys.stdout.write("held\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            try:
                membership.check()
            except RemovedError as error:
                sys.stdout.write("lost\n")
                sys.exit(error.exit_code)
            time.sleep(0.01)


if __name__ == "__main__":
    main()

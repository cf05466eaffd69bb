"""Processes for the lease's tests: some that race for it, and one that holds it.

python -m tests.orchestrator.lease.lease_race FOLDER HOST STALE_S
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from orchestrator.lease import LeaseHeldError, LeaseLostError, Timing, take_lease
from orchestrator.lease.holder import this_driver
from orchestrator.storage.storage import FolderStorage


def race(folder: Path, rounds: int, barrier: Barrier, told: Queue[tuple[int, str]]) -> None:
    """Ask once a round, at the same time as the others; tell "held" or "refused", and "held twice" if it ever is."""
    inside = folder / "inside"
    for number in range(rounds):
        barrier.wait(60)
        try:
            with take_lease(FolderStorage(folder), "s", say=lambda _: None) as lease:
                word = "held"
                try:
                    inside.touch(exist_ok=False)
                except FileExistsError:
                    word = "held twice"
                lease.check()
                barrier.wait(60)  # it holds until the others have been refused
                inside.unlink(missing_ok=True)
        except LeaseHeldError:
            word = "refused"
            barrier.wait(60)
        told.put((number, word))
    barrier.wait(60)


def main() -> None:
    folder, host, stale_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    me = this_driver()
    timing = Timing(beat_s=stale_s / 20, stale_s=stale_s)
    with take_lease(
        FolderStorage(folder), "s", say=print, timing=timing, me=replace(me, host=host or me.host)
    ) as lease:
        sys.stdout.write("held\n")
        sys.stdout.flush()
        for _ in sys.stdin:
            try:
                lease.check()
            except LeaseLostError as error:
                sys.stdout.write("lost\n")
                sys.exit(error.exit_code)
            time.sleep(0.01)


if __name__ == "__main__":
    main()

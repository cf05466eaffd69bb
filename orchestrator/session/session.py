"""Run a planned launch, inline or on Ray, with its listeners."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.claims import join
from orchestrator.claims.claims import CLAIMS
from orchestrator.claims.roster import DRIVERS
from orchestrator.config.console import say, stdout
from orchestrator.config.quantities import counted
from orchestrator.execution.stop_request import FOLDER, StopRequest
from orchestrator.search.factory import decides
from orchestrator.session.bounds import Bounds
from orchestrator.session.outcome import Outcome, outcome_of
from orchestrator.session.running import Running
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore
from orchestrator.store.schema import CHECKPOINTS
from orchestrator.store.temporary_files import remove_temporary_files
from orchestrator.sweeps.cluster_spec import ClusterSpec, check_room_here
from orchestrator.sweeps.plan import Plan, brought_up_to_date
from trials.errors import StoreError

# Run what a plan has left, to its end or a limit: the part that the commands and `orchestrator.api` share.

_MADE_AGAIN = (DRIVERS, CLAIMS, CHECKPOINTS, FOLDER)  # folders that are worth nothing without the rows


@dataclass(frozen=True)
class Ended:
    """A launch that has ended.

    Attributes:
        plan: The plan, brought up to date at its start.
        stop: Whether and why it stopped early.
        found: What a search or a goal found, in lines; empty for a grid.
    """

    plan: Plan
    outcome: Outcome
    stop: StopRequest
    found: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 complete, 1 some trials failed, else that of what stopped it."""
        return self.stop.exit_code if self.stop.asked else int(self.outcome.failed > 0)


@contextmanager
def run_plan(
    plan: Plan, cluster: ClusterSpec, results: ResultStore, bounds: Bounds, *, began: float
) -> Iterator[Ended]:
    """Run the trials that the store lacks, then the block, which shows what came of them: no first signal cuts it off.

    Args:
        cluster: Where they run; not a remote one, to which a sweep is submitted.
        began: Start of the launch on the monotonic clock.

    Raises:
        ConfigError: This machine lacks what a trial needs.
        BusyStoreError: Another process has the store alone.
        StoreError: The store cannot be read or written.
    """
    check_room_here(cluster, plan.sweep.resources)
    stop = StopRequest()
    results.create()
    honours = results.storage.honours_create()
    if not honours:
        say("note    this storage ignores a condition that claims need, so one driver at a time works on the store.")
    with stop.signals.handled(say):
        yield _ended(plan, cluster, results, bounds, began, stop, alone=not honours)


def _ended(
    plan: Plan,
    cluster: ClusterSpec,
    results: ResultStore,
    bounds: Bounds,
    began: float,
    stop: StopRequest,
    *,
    alone: bool,
) -> Ended:
    committed = set[str]()
    try:
        with join(results.storage, plan.sweep.name, say=say, alone=alone) as membership:
            remove_temporary_files(results.storage, membership)
            results.add_plan(plan.declared())
            plan = brought_up_to_date(plan, results)  # other drivers may have run trials until now
            running = Running(plan, cluster, results, bounds, membership, stop, began)
            committed = running.committed
            try:
                running.run()
            finally:
                running.source.close()  # claims no further trial
            if decides(plan) and not membership.others():  # after an error the next launch does it
                results.join_decisions(plan.sweep.name)
    except (StoreError, OSError) as error:
        if results.is_gone:
            raise _gone(results, plan.n_skipped + len(committed)) from error
        raise
    outcome = outcome_of(plan, results, time.monotonic() - began, dry_run=False)
    stop.settle(all_ran=running.queue.is_over)
    left = len(plan.ahead) - outcome.completed - outcome.pruned - outcome.failed
    bounds.settle(stop, left=0 if running.queue.is_over and not running.has_work else left)
    return Ended(plan, outcome, stop, tuple(running.source.found(stdout.width)))


def _gone(results: ResultStore, n_committed: int) -> StoreError:
    """What is true of a store that was deleted, or moved, while its driver ran."""
    if isinstance(results.storage, FolderStorage):  # what drivers made again is in the way of whoever puts it back
        for name in _MADE_AGAIN:
            shutil.rmtree(results.storage.folder / name, ignore_errors=True)
        with contextlib.suppress(OSError):
            results.storage.folder.rmdir()
    lost = f"the {counted(n_committed, 'trial')} committed there {'is' if n_committed == 1 else 'are'} lost"
    return StoreError(
        f"{results.address}: the store is gone; it was deleted or moved while this driver ran. Unless it is put back, "
        f"{lost if n_committed else 'all that was written there is lost'}. Put it back and run the same command to "
        "resume; without it the same command starts anew."
    )

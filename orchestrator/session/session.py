"""One launch, in the order of its steps: plan, join, run, end. The commands and `orchestrator.api` run trials by it.

launch = Launch.begin(find_cluster("local"), Bounds(hours=8), "results", stderr)
with launch.lookup(offline=False) as lookup:
    plan = launch.plan(sweep, document, lookup)
with launch.run(plan) as ended:
    ...  # shows what came of it
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.claims import CLAIMS, DRIVERS, SEARCHES, Membership, hold_search, join
from orchestrator.config.console import DEFAULT_STORE, SafeConsole, download_progress
from orchestrator.config.quantities import counted
from orchestrator.config.yaml_document import Document
from orchestrator.execution.stop_request import FOLDER, StopRequest
from orchestrator.search.sources import is_search
from orchestrator.session.bounds import Bounds
from orchestrator.session.outcome import Outcome, early_end, outcome_of
from orchestrator.session.sweep_run import SweepRun
from orchestrator.session.terms import Terms
from orchestrator.storage.storage import FolderStorage, temporary_files
from orchestrator.store import ResultStore, open_store
from orchestrator.store.schema import CHECKPOINTS
from orchestrator.sweeps.cluster_spec import ClusterSpec, check_room_here, settled
from orchestrator.sweeps.plan import Plan, brought_up_to_date, make_plan
from orchestrator.sweeps.sweep import SweepSpec
from trials.draft import Lookup
from trials.errors import StoreError

_MADE_AGAIN = (DRIVERS, CLAIMS, SEARCHES, CHECKPOINTS, FOLDER)  # folders that are worth nothing without the rows


@dataclass(frozen=True)
class Ended:
    """A sweep's end in a launch.

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

    @property
    def stopped(self) -> str | None:
        """Why it stopped early, and how much is left; None if it did not."""
        return early_end(self.plan, self.outcome, self.stop)


class Launch(Terms):
    """What a command or the API runs trials by."""

    @classmethod
    def begin(cls, where: ClusterSpec, bounds: Bounds, store: str | None, console: SafeConsole) -> Launch:
        """In the store of that name, else in that of the cluster's file. It need not exist, and is not written yet.

        Raises:
            ConfigError: A limit is not positive, or a cost has no prices.
            StoreError: The store cannot be read.
        """
        began = time.monotonic()
        bounds.check(where.prices)
        results = open_store(store or where.store or DEFAULT_STORE, must_exist=False)
        return cls(where, bounds, results, console, began)

    @contextmanager
    def lookup(self, *, offline: bool, fetched: Callable[[str], None] = lambda name: None) -> Iterator[Lookup]:
        """Looks up corpora and models, and shows downloads; `fetched` hears the name of each file."""
        with download_progress(self.console) as shown:

            def progress(name: str, done_bytes: int, total_bytes: int | None) -> None:
                fetched(name)
                shown(name, done_bytes, total_bytes)

            yield Lookup(offline=offline, progress=progress)

    def plan(self, sweep: SweepSpec, document: Document, lookup: Lookup) -> Plan:
        """The trials of a sweep that the store lacks.

        Raises:
            ConfigError: All errors of the sweep, each with its key in the document.
            StoreError: The store cannot be read.
        """
        return make_plan(settled(self.where, sweep), document, self.results, lookup)

    @contextmanager
    def run(self, plan: Plan) -> Iterator[Ended]:
        """Run what a plan has left, to its end or a limit; then the block, which no first signal cuts off.

        Raises:
            ConfigError: This machine lacks what a trial needs.
            BusyStoreError: Another driver has what only one can have: the search, or a store without claims.
            StoreError: The store cannot be read or written.
        """
        results, stop, committed = self.results, StopRequest(), set[str]()
        check_room_here(self.where, plan.sweep.resources)
        results.create()
        with stop.signals.handled(self.say):
            try:
                with self._join(plan) as membership:
                    left_by_killed = temporary_files(results.storage, without=(DRIVERS,))
                    if left_by_killed and not membership.others():  # listed last: who comes later writes other files
                        for file in left_by_killed:
                            file.unlink(missing_ok=True)
                    results.add_plan(plan.declared())
                    plan = brought_up_to_date(plan, results)  # other drivers may have run trials until now
                    run = SweepRun(self, plan, membership, stop, committed)
                    run.run()
            except (StoreError, OSError) as error:
                if results.is_gone:
                    raise _gone(results, plan.n_skipped + len(committed)) from error
                raise
            outcome = outcome_of(plan, results, self.elapsed_s, ran=committed)
            stop.settle(all_ran=run.queue.is_over)
            left = len(plan.ahead) - outcome.completed - outcome.pruned - outcome.failed
            self.bounds.settle(stop, left=0 if run.queue.is_over and not run.has_work else left)
            yield Ended(plan, outcome, stop, tuple(run.source.found(self.console.width)))

    @contextmanager
    def _join(self, plan: Plan) -> Iterator[Membership]:
        """Be present in the store: beside other drivers, but for a search or where its storage lets none claim."""
        storage = self.results.storage
        honours = storage.honours_create()
        if not honours:
            self.say(
                "note    this storage ignores a condition that claims need, so one driver at a time works on the store."
            )
        with join(storage, plan.sweep.name, say=self.say, check_store=self.results.check_there) as membership:
            if not honours:
                membership.await_turn(membership.others, "such a store")
            elif is_search(plan):
                hold_search(storage, membership, plan.sweep.name)
            yield membership


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

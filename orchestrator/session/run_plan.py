"""Run what a plan has left, to its end or a limit: the part that the commands and `orchestrator.api` share."""

from __future__ import annotations

import time
from dataclasses import dataclass

from orchestrator.claims import join, running_drivers
from orchestrator.config.console import say
from orchestrator.execution.stop_request import StopRequest, leaving_on_sigterm
from orchestrator.search.factory import decides
from orchestrator.session.budget import Bounds, hourly_price
from orchestrator.session.outcome import Outcome, outcome_of
from orchestrator.session.session import Running
from orchestrator.store import ResultStore
from orchestrator.store.garbage import remove_temporary_files
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.plan import Plan, brought_up_to_date


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


def run_plan(plan: Plan, cluster: ClusterSpec, results: ResultStore, bounds: Bounds, *, began: float) -> Ended:
    """Run the trials that the store lacks.

    Args:
        cluster: Where they run; not a remote one, to which a sweep is submitted.
        began: Start of the launch on the monotonic clock.

    Raises:
        BusyStoreError: Another process has the store alone.
        StoreError: The store cannot be read or written.
    """
    stop = StopRequest()
    results.create()
    honours = results.storage.honours_create()
    if not honours:
        say("note    this storage ignores a condition that claims need, so one driver at a time works on the store.")
    with leaving_on_sigterm(), join(results.storage, plan.sweep.name, say=say, alone=not honours) as membership:
        remove_temporary_files(results.storage, membership)
        results.add_plan(plan.declared())
        plan = brought_up_to_date(plan, results)  # other drivers may have run trials until now
        running = Running.of(plan, cluster, results, membership, stop, most=bounds.trials or None)
        try:
            _run(running, bounds, began)
        finally:
            running.close()
        if decides(plan) and not membership.others():  # after an error the next launch does it
            results.join_decisions(plan.sweep.name)
    outcome = outcome_of(plan, results, time.monotonic() - began, dry_run=False)
    bounds.settle(stop, left=len(plan.ahead) - outcome.completed - outcome.pruned - outcome.failed)
    return Ended(plan, outcome, stop, tuple(running.source.found()))


def _run(running: Running, bounds: Bounds, began: float) -> None:
    if not running.has_work:
        what = "every trial of this sweep is" if running.plan.runs_all else "all trials that this sweep needs are"
        say(f"nothing to do: {what} complete in the store.")
        return
    for driver in running_drivers(running.results.storage):
        if driver.token != running.membership.token:
            say(f"with    {driver}")
    running.go(bounds, hourly=price_of_an_hour(running.plan, running.cluster), began=began)


def price_of_an_hour(plan: Plan, cluster: ClusterSpec) -> float:
    """The price of one hour of one trial."""
    resources = plan.sweep.resources
    gpus = 1.0 if resources.gpus == "packed" else resources.gpus
    return hourly_price(cluster.prices, resources.cpus, gpus, resources.device)

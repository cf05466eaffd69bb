"""Stop a running sweep gracefully, wherever its driver runs.

permafrost stop my-sweep --store results
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.config.console import DEFAULT_STORE, ClusterOption, DebugOption, reported, say
from orchestrator.execution.stop_request import ask_to_stop
from orchestrator.lease.claims import LEASES
from orchestrator.lease.holder import this_driver
from orchestrator.lease.running_driver import running_driver
from orchestrator.store import open_store
from orchestrator.sweeps.cluster_spec import find_cluster
from trials.errors import NothingMatchedError

_POLL_S = 1.0


def stop(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="The sweep's name.")],
    store: Annotated[
        str | None, typer.Option("--store", metavar="DIR", help="The store it runs into.", show_default=DEFAULT_STORE)
    ] = None,
    cluster: ClusterOption = "local",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when its driver has ended.")] = True,
    debug: DebugOption = False,
) -> None:
    """Stop a running sweep: its trials go on to their next evaluation and are kept there; launching again goes on.

    Examples:
        permafrost stop my-sweep --store results

        permafrost stop my-sweep --cluster http://head:8265

    Exit codes: 0 stopped, 2 a wrong setting, 3 the store or cluster does not answer, 5 nobody runs it.
    """
    code = 0
    with reported(debug=debug):
        spec = find_cluster(cluster)
        if spec.is_remote:
            code = _stop_there(spec.address, sweep, wait=wait)
        else:
            _stop(store or spec.store or DEFAULT_STORE, sweep, wait=wait)
    raise typer.Exit(code)


def _stop(store: str, sweep: str, *, wait: bool) -> None:
    storage = open_store(store).storage
    known = sweep in storage.at(LEASES).folders()  # a name is looked up, never made part of a path
    driver = running_driver(storage, sweep) if known else None
    if driver is None:
        raise NothingMatchedError(f"sweep {sweep}: nobody runs it in {store}. There is nothing to stop.")
    ask_to_stop(storage, sweep, str(this_driver()))
    say(f"sweep {sweep}: {driver} was asked to stop; its trials go on to their next evaluation.")
    while wait and running_driver(storage, sweep) is not None:
        time.sleep(_POLL_S)
    if wait:
        say(f"sweep {sweep}: stopped. Launching it again goes on.")


def _stop_there(address: str, sweep: str, *, wait: bool) -> int:
    """The same command, run on the cluster, which is where the store can surely be reached."""
    from orchestrator.ray_backend.jobs import Jobs
    from orchestrator.session.submit import follow
    from orchestrator.sweeps.cluster_spec import ClusterSpec

    jobs = Jobs(address)
    found = jobs.newest(sweep)
    if found.is_over:
        raise NothingMatchedError(f"sweep {sweep}: its driver at {address} has ended ({found.status.lower()}).")
    # Not the console script: a job has the code of `orchestrator` and `trials`, not their installation.
    command = "from orchestrator.commands.app import app; app()"
    words = ["python", "-c", command, "stop", sweep, "--store", found.store]
    with tempfile.TemporaryDirectory() as folder:
        job = jobs.submit(
            Path(folder), words if wait else [*words, "--no-wait"], ClusterSpec(address=address), sweep=sweep,
            store=found.store, kind="stop",
        )  # fmt: skip
        return follow(jobs, job, sweep)

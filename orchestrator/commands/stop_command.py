"""Stop a running sweep gracefully, wherever its drivers run.

permafrost stop results my-sweep
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from orchestrator.claims import running_drivers
from orchestrator.claims.membership import this_process
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, say, write
from orchestrator.execution.stop_request import ask_to_stop
from orchestrator.store import open_store
from orchestrator.sweeps.cluster_spec import find_cluster
from trials.errors import ConfigError, NothingMatchedError
from trials.escaping import composed

_POLL_S = 1.0


def stop(
    store: options.ClusterStore = None,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", metavar="NAME", parser=composed, help="The sweep.", show_default="the one that runs"),
    ] = None,
    cluster: options.Cluster = "local",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until its drivers have ended.")] = True,
    debug: options.Debug = False,
) -> None:
    """Stop all drivers of a sweep. Running trials continue to their next evaluation; launch it again to resume.

    Examples:
        permafrost stop results

        permafrost stop results my-sweep

        permafrost stop --sweep my-sweep --cluster http://head:8265

    Exit codes: 0 stopped, 2 invalid setting, 3 store or cluster unreachable, 5 the sweep is not running.
    """
    code = 0
    with reported(debug=debug):
        spec = find_cluster(cluster)
        if spec.is_remote:
            from orchestrator.backends import REMOTES

            code = REMOTES[spec.backend].stop(spec.address, sweep, wait=wait, say=say, write=write)
        else:
            _stop(store or spec.store or DEFAULT_STORE, sweep, wait=wait)
    raise typer.Exit(code)


def _stop(store: str, sweep: str | None, *, wait: bool) -> None:
    storage = open_store(store).storage
    drivers = running_drivers(storage, sweep)  # the name is looked up before it is joined to a path
    running = list(dict.fromkeys(driver.holder.sweep for driver in drivers))
    if not running:
        what = "no sweep is running" if sweep is None else f"sweep {sweep}: not running"
        raise NothingMatchedError(f"{what} in {store}. There is nothing to stop.")
    if len(running) > 1:
        raise ConfigError(f"{store}: {len(running)} sweeps are running, {', '.join(running)}. Say which: --sweep NAME.")
    (sweep,) = running
    ask_to_stop(storage, sweep, str(this_process()))
    asked = " and ".join(str(driver.holder) for driver in drivers)
    say(f"sweep {sweep}: asked {asked} to stop; running trials continue to their next evaluation.")
    while wait and running_drivers(storage, sweep):
        time.sleep(_POLL_S)
    if wait:
        say(f"sweep {sweep}: stopped. Launch it again to resume.")

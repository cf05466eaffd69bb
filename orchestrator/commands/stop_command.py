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
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, say
from orchestrator.execution.stop_request import ask_to_stop
from orchestrator.store import open_store
from trials.errors import ConfigError, NothingMatchedError
from trials.escaping import compose

_POLL_S = 1.0  # a person waits


def stop(
    store: options.Store = DEFAULT_STORE,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", metavar="NAME", parser=compose, help="The sweep.", show_default="the one that runs"),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until its drivers have ended.")] = True,
) -> None:
    """Stop all drivers of a sweep. Running trials continue to their next evaluation; launch it again to resume.

    Examples:
        permafrost stop results

        permafrost stop results my-sweep

        permafrost stop s3://bucket/results

    Exit codes: 0 stopped, 2 invalid setting, 3 store unreachable, 5 the sweep is not running.
    """
    with errors_as_exit_codes():
        storage = open_store(store).storage
        drivers = running_drivers(storage, sweep)  # the name is looked up before it is joined to a path
        running = list(dict.fromkeys(driver.holder.sweep for driver in drivers))
        if not running:
            what = "no sweep is running" if sweep is None else f"sweep {sweep}: not running"
            raise NothingMatchedError(f"{what} in {store}. There is nothing to stop.")
        if len(running) > 1:
            names = ", ".join(running)
            raise ConfigError(f"{store}: {len(running)} sweeps are running, {names}. Say which: --sweep NAME.")
        (sweep,) = running
        ask_to_stop(storage, sweep, str(this_process()))
        holders = " and ".join(str(driver.holder) for driver in drivers)
        say(f"sweep {sweep}: asked {holders} to stop; running trials continue to their next evaluation.")
        while wait and running_drivers(storage, sweep):
            time.sleep(_POLL_S)
        if wait:
            say(f"sweep {sweep}: stopped. Launch it again to resume.")

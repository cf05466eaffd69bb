"""Look whether this machine is ready for sweeps, or for one sweep; every problem comes with its fix.

permafrost doctor
permafrost doctor --sweep my.yaml --store results --json
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.config.console import DEFAULT_STORE, ClusterOption, DebugOption, JsonOption, reported, stdout
from orchestrator.deploy.machine_checks import CheckResult, checks, examined
from orchestrator.sweeps.cluster_spec import find_cluster

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    sweep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Look at this sweep's data and models too.")
    ] = None,
    cluster: ClusterOption = "local",
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="DIR", help="The results store.", show_default=f"cluster's, or {DEFAULT_STORE}"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Put a setting over the sweep's; repeatable.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Look whether this machine is ready: Python, packages, devices, disk, Ray, data and models, browser.

    Examples:
        permafrost doctor

        permafrost doctor --sweep my.yaml --store s3://bucket/results

    Exit codes: 0 ready (warnings included), 1 something would fail, 2 a wrong setting.
    """
    with reported(debug=debug):
        where = find_cluster(cluster)
        wanted = checks(store or where.store or DEFAULT_STORE, sweep, settings or [], where.address)
        found = list(examined(wanted))
        if as_json:
            print(json.dumps({"findings": [asdict(one) for one in found]}))
        else:
            stdout.print(_table(found))
        failed = any(one.level == "fail" for one in found)
    raise typer.Exit(int(failed))


def _table(found: Sequence[CheckResult]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in found:
        table.add_row(Text(one.level, style=_COLOURS[one.level]), one.check, Text(one.what))
        if one.fix:
            table.add_row("", "", Text(f"-> {one.fix}"))
    return table

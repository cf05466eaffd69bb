"""Check that this machine is ready for sweeps, or for one sweep; every problem comes with a fix.

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

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, stdout
from orchestrator.deploy.machine_checks import CheckResult, checks, examined
from orchestrator.sweeps.cluster_spec import find_cluster

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    sweep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also check the data and models of this sweep.")
    ] = None,
    cluster: options.Cluster = "local",
    store: options.ClusterStore = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Check that this machine is ready: Python, packages, devices, disk, Ray, data and models, browser.

    Examples:
        permafrost doctor

        permafrost doctor --sweep my.yaml --store s3://bucket/results

    Exit codes: 0 ready, perhaps with warnings, 1 some check failed, 2 invalid setting.
    """
    with reported(debug=debug):
        where = find_cluster(cluster)
        wanted = checks(store or where.store or DEFAULT_STORE, sweep, settings or [], where)
        results = list(examined(wanted))
        if as_json:
            print(json.dumps({"findings": [asdict(result) for result in results]}))
        else:
            stdout.print(_table(results))
        failed = any(result.level == "fail" for result in results)
    raise typer.Exit(int(failed))


def _table(results: Sequence[CheckResult]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for result in results:
        table.add_row(Text(result.level, style=_COLOURS[result.level]), result.check, Text(result.what))
        if result.fix:
            table.add_row("", "", Text(f"-> {result.fix}"))
    return table

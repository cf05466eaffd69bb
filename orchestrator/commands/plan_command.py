"""Show what a sweep would run and forecast its cost, before anything runs.

permafrost plan --sweep my.yaml
permafrost plan --sweep my.yaml --pilot  # if the store has no trial on this device
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.padding import Padding

from orchestrator.commands.launch_command import DEFAULT_SWEEP
from orchestrator.config import options
from orchestrator.config.console import reported, say, stderr, stdout
from orchestrator.config.quantities import counted
from orchestrator.forecast.forecast import Forecast, forecast_of
from orchestrator.forecast.pilot import Pilots
from orchestrator.session.bounds import Bounds
from orchestrator.session.session import Launch
from orchestrator.session.setting_table import setting_table
from orchestrator.session.tables import plan_lines
from orchestrator.sweeps.cluster_spec import ClusterSpec, device_line, find_cluster
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import MAX_TRIALS
from trials.spec import steps_an_epoch


def plan(
    sweep: options.Sweep = DEFAULT_SWEEP,
    cluster: options.Cluster = "local",
    store: options.ClusterStore = None,
    settings: options.Settings = None,
    pilot: options.Pilot = False,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            metavar="N",
            min=1,
            max=MAX_TRIALS,
            help="Trials that run at the same time.",
            show_default="as many as fit",
        ),
    ] = None,
    offline: options.Offline = False,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    as_json: options.Json = False,
) -> None:
    """Show what a sweep would run, and forecast its time and cost. Nothing is written.

    Examples:
        permafrost plan --sweep my.yaml --store results

        permafrost plan --sweep my.yaml --pilot

        permafrost plan --sweep my.yaml --cluster gpus.yaml --slots 16 --json

    Exit codes: 0 planned, 2 invalid setting, 3 missing or broken file.
    """
    with reported():
        where = find_cluster(cluster, cpus=cpus, gpus=gpus)
        declared, document = load_sweep(sweep, settings or [])
        launch, fetched = Launch.begin(where, Bounds(), store, stderr), dict[str, None]()
        with launch.lookup(offline=offline, fetched=lambda name: fetched.update({name: None})) as lookup:
            ahead = launch.plan(declared, document, lookup)
        forecast = forecast_of(ahead, launch.results, where, pilots=Pilots(say) if pilot else None, slots=slots)
        if as_json:
            print(json.dumps(_as_json(ahead, forecast, list(fetched), launch.results.address, where)))
        else:
            _show(ahead, forecast, list(fetched), launch.results.address, where)


def _show(plan: Plan, forecast: Forecast, fetched: list[str], store: str, cluster: ClusterSpec) -> None:
    downloads = f"fetched {counted(len(fetched), 'file')} into the cache: {', '.join(fetched[:3])}" if fetched else None
    for line in (*plan_lines(plan, store, cluster), downloads):
        if line:
            stdout.print_line(line)
    stdout.print(Padding(setting_table(plan), (1, 0)))
    for part in forecast.parts():
        stdout.print(part)


def _as_json(plan: Plan, forecast: Forecast, fetched: list[str], store: str, cluster: ClusterSpec) -> dict[str, Any]:
    return {
        "sweep": plan.sweep.name,
        "store": store,
        "cluster": cluster.address,
        "device": device_line(cluster, plan.sweep.resources),
        "trials": plan.n_trials,
        "cells": plan.n_cells,
        "complete": plan.n_skipped,
        "to_run": len(plan.ahead),
        "epochs": sum(spec.optim.epochs for spec in plan.ahead),
        "steps": sum(steps_an_epoch(spec) * spec.optim.epochs for spec in plan.ahead),
        "downloads": fetched,
        "notes": list(plan.notes),
        "forecast": forecast.as_json(),
    }

"""Show what a sweep would run and forecast its cost, before anything runs.

permafrost plan --sweep my.yaml
permafrost plan --sweep my.yaml --pilot  # if the store has no trial on this device
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.analysis.cells import cell_label, cell_specs, objective_group, varying_settings
from orchestrator.commands.launch_command import DEFAULT_SWEEP
from orchestrator.config import options
from orchestrator.config.console import errors_as_exit_codes, say, stderr, stdout
from orchestrator.config.quantities import amount
from orchestrator.forecast.forecast import Forecast, forecast_of
from orchestrator.forecast.pilot import Pilots
from orchestrator.session.launch_loop import Launch
from orchestrator.session.tables import ITEMS, plan_lines
from orchestrator.sweeps.cluster_spec import ClusterSpec, device_line, find_cluster
from orchestrator.sweeps.expansion import declared_size
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan
from trials.errors import ConfigError
from trials.spec import TrialSpec, steps_an_epoch
from trials.tasks.task import head_of

_FILES_MISSING = 3  # the exit code if files are missing and nothing else is wrong
MOST_SETTINGS = 60  # rows of the table; the other settings are counted


def plan(
    sweep: options.Sweep = DEFAULT_SWEEP,
    cluster: options.Cluster = None,
    store: options.ClusterStore = None,
    settings: options.Settings = None,
    pilot: options.Pilot = False,
    offline: options.Offline = False,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    as_json: options.Json = False,
) -> None:
    """Show what a sweep would run, and forecast its time and cost. Nothing is written.

    Examples:
        permafrost plan --sweep my.yaml --store results

        permafrost plan emekaeze_pos

        permafrost plan --sweep my.yaml --pilot

        permafrost plan --sweep my.yaml --cluster gpus.yaml --json

    Exit codes: 0 planned, 2 invalid setting, 3 missing or broken file.
    """
    with errors_as_exit_codes():
        where = find_cluster(cluster, cpus=cpus, gpus=gpus)
        declared, document = load_sweep(sweep, settings or [])
        launch, fetched = Launch.begin(where, store, stderr), dict[str, None]()
        try:
            with launch.lookup(offline=offline, fetched=lambda name: fetched.update({name: None})) as lookup:
                ahead = launch.plan(declared, document, lookup)
        except ConfigError as error:
            if error.exit_code == _FILES_MISSING and (size := declared_size(declared)):
                n_trials, n_settings = amount(size[1], "trial"), amount(size[0], "setting")
                say(f"{declared.name} declares {n_trials} ({n_settings}); not checked further, as files are missing.")
            raise
        forecast = forecast_of(ahead, launch.results, where, pilots=Pilots(say) if pilot else None)
        if as_json:
            print(json.dumps(_as_json(ahead, forecast, list(fetched), launch.results.address, where)))
        else:
            _show(ahead, forecast, list(fetched), launch.results.address, where)


def _show(plan: Plan, forecast: Forecast, fetched: list[str], store: str, cluster: ClusterSpec) -> None:
    downloads = f"fetched {amount(len(fetched), 'file')} into the cache: {', '.join(fetched[:3])}" if fetched else None
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
        "to_run": len(plan.workload),
        "epochs": sum(spec.optim.epochs for spec in plan.workload),
        "steps": sum(steps_an_epoch(spec) * spec.optim.epochs for spec in plan.workload),
        "downloads": fetched,
        "notes": list(plan.notes),
        "forecast": forecast.as_json(),
    }


def setting_table(plan: Plan) -> Table:
    """One row per setting of a plan: what it freezes, and how many of its seeds are complete."""
    specs = [*plan.trials, *plan.stand_ins]
    varying, cells = varying_settings(specs), cell_specs(specs)
    to_run = {spec.trial_id for spec in plan.workload}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("setting", overflow="fold")
    table.add_column("seeds complete", justify="right", no_wrap=True)
    names = {cell: _name_of(replicates[0], varying, cells) for cell, replicates in cells.items()}
    for cell, replicates in [*cells.items()][:MOST_SETTINGS]:
        complete = sum(spec.trial_id not in to_run for spec in replicates)
        table.add_row(Text(names[cell]), f"{complete} of {len(replicates)}")
    if (more := len(cells) - MOST_SETTINGS) > 0:
        table.add_row(f"and {more:,} more", "")
    return table


def _name_of(spec: TrialSpec, varying: Sequence[str], cells: Mapping[str, Sequence[TrialSpec]]) -> str:
    """The label of a setting, followed by its corpus and train size if these vary."""
    name = cell_label(spec, varying)
    groups = {objective_group(replicates[0]) for replicates in cells.values()}
    _, _, corpus, size = objective_group(spec)
    return name if len(groups) == 1 else f"{name}, {corpus}, {size:,} train {ITEMS[head_of(spec.task)]}"

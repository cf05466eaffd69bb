"""Launch a sweep: plan it, run the trials that the store lacks, and show the results.

permafrost launch
permafrost launch --sweep my.yaml --store results --set seeds=[0,1]
permafrost launch --sweep my.yaml --cluster http://head:8265 --store s3://bucket/results --detach
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, NoReturn

import typer

from orchestrator.api.launching import Launched
from orchestrator.backends import REMOTES
from orchestrator.backends.backend import Submission
from orchestrator.commands.launch_end import say_end, show_done
from orchestrator.config import options
from orchestrator.config.command_line import configs_folder
from orchestrator.config.console import reported, say, stderr, write
from orchestrator.config.yaml_document import Document
from orchestrator.forecast.forecast import forecast_of
from orchestrator.forecast.forecast_text import forecast_line, forecast_tables
from orchestrator.forecast.pilot import Pilots
from orchestrator.session.bounds import Bounds, limit_note
from orchestrator.session.outcome import outcome_of
from orchestrator.session.session import Launch
from orchestrator.session.tables import plan_lines
from orchestrator.sweeps.cluster_spec import ClusterSpec, find_cluster
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan
from trials.errors import ConfigError

DEFAULT_SWEEP = configs_folder("sweeps") / "starter.yaml"


def launch(
    sweep: options.Sweep = DEFAULT_SWEEP,
    cluster: options.Cluster = "local",
    store: options.ClusterStore = None,
    settings: options.Settings = None,
    offline: options.Offline = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and exit.")] = False,
    pilot: options.Pilot = False,
    detach: Annotated[bool, typer.Option("--detach", help="Submit the sweep to the cluster and return.")] = False,
    max_hours: Annotated[
        float | None, typer.Option(metavar="H", help="Stop after H hours; run the same command to resume.")
    ] = None,
    max_trials: Annotated[
        int | None, typer.Option(metavar="N", help="Run at most N trials; run the same command to resume.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="C", help="Stop when trials have cost C, by the prices in the cluster file.")
    ] = None,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Run a sweep. Trials that are complete in the store are not run again.

    Examples:
        permafrost launch

        permafrost launch --sweep my.yaml --store results --set seeds=[0,1]

        permafrost launch --sweep my.yaml --cluster http://head:8265 --store s3://bucket/results

        permafrost launch --sweep my.yaml --max-hours 8

        permafrost launch --sweep my.yaml --pilot

    Exit codes: 0 complete, 1 some trials failed, 2 invalid setting, 3 missing or broken file, 130 interrupted,
    143 terminated or at a limit.
    """
    with reported(debug=debug):
        where, bounds = find_cluster(cluster, cpus=cpus, gpus=gpus), Bounds(max_hours, max_trials, max_cost)
        declared, document = load_sweep(sweep, settings or [])
        if where.is_remote:
            bounds.check(where.prices)
            given = {"--offline": offline, "--dry-run": dry_run, "--json": as_json, "--debug": debug}
            flags = [*given_flags(given), *bounds.options()]
            submit_to(where, document, declared.name, store, flags, pilot=pilot, detach=detach)
        launched = Launch.begin(where, bounds, store, stderr)
        with launched.lookup(offline=offline) as lookup:
            plan = launched.plan(declared, document, lookup)
        code = _launch(launched, plan, pilot=pilot, dry_run=dry_run, as_json=as_json)
    raise typer.Exit(code)


def given_flags(flags: Mapping[str, bool]) -> list[str]:
    """The flags that were given."""
    return [flag for flag, is_given in flags.items() if is_given]


def submit_to(
    where: ClusterSpec,
    document: Document,
    sweep: str,
    store: str | None,
    flags: Sequence[str],
    *,
    pilot: bool,
    detach: bool = False,
) -> NoReturn:
    """Submit a sweep to a cluster, and exit with its code."""
    if pilot:
        raise ConfigError("--pilot: pilots run on this machine, not on the cluster. Remove the option.")
    submission = Submission(document, sweep, store or where.store, flags)
    raise typer.Exit(REMOTES[where.backend].submit(where, submission, detach=detach, say=say, write=write))


def _launch(launch: Launch, plan: Plan, *, pilot: bool, dry_run: bool, as_json: bool) -> int:
    for line in plan_lines(plan, launch.results.address, launch.where):
        say(line)
    _show_forecast(plan, launch, pilot=pilot, whole=dry_run)
    if dry_run:
        if as_json:
            print(json.dumps(asdict(outcome_of(plan, launch.results, launch.elapsed_s, ran=None))))
        return 0
    with launch.run(plan) as ended:
        if as_json:
            print(json.dumps(asdict(ended.outcome)))
        else:
            show_done(Launched.of(ended, launch.results))
        say_end(ended, launch.results)
        return ended.exit_code


def _show_forecast(plan: Plan, launch: Launch, *, pilot: bool, whole: bool) -> None:
    """Show the forecast of the plan, whole or in one line, where the store has data for one."""
    if not plan.ahead:
        return
    forecast = forecast_of(plan, launch.results, launch.where, pilots=Pilots(say) if pilot else None)
    if whole:
        for part in forecast_tables(forecast):
            stderr.print(part)
    elif forecast.is_known:
        say(forecast_line(forecast))
    if note := limit_note(launch.bounds, forecast, launch.where.hourly(plan.sweep.resources)):
        say(f"note    {note}")

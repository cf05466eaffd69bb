"""Launch a sweep: plan it, run the trials that the store lacks, and show the results.

permafrost launch
permafrost launch --sweep my.yaml --store results --set seeds=[0,1]
permafrost launch --sweep my.yaml --cluster auto --store s3://my/results
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from orchestrator.api.launching import Launched
from orchestrator.commands.shown_answers import show_answers
from orchestrator.config import options
from orchestrator.config.command_line import configs_folder
from orchestrator.config.console import errors_as_exit_codes, say, sibling_command, stderr, stdout, typed_command
from orchestrator.config.quantities import HOUR, amount, duration
from orchestrator.forecast.forecast import forecast_of
from orchestrator.forecast.pilot import Pilots
from orchestrator.session.launch_loop import Launch
from orchestrator.session.outcome import Ended, outcome_of
from orchestrator.session.tables import failure_table, plan_lines
from orchestrator.sweeps.cluster_spec import find_cluster
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import Plan

DEFAULT_SWEEP = configs_folder("sweeps") / "starter.yaml"


def launch(
    sweep: options.Sweep = DEFAULT_SWEEP,
    cluster: options.Cluster = None,
    store: options.ClusterStore = None,
    settings: options.Settings = None,
    offline: options.Offline = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and exit.")] = False,
    pilot: options.Pilot = False,
    max_hours: Annotated[
        float | None, typer.Option(metavar="H", help="Stop after H hours; run the same command to resume.")
    ] = None,
    max_trials: Annotated[
        int | None, typer.Option(metavar="N", help="Run at most N trials; run the same command to resume.")
    ] = None,
    cpus: options.Cpus = None,
    gpus: options.Gpus = None,
    as_json: options.Json = False,
) -> None:
    """Run a sweep. Trials that are complete in the store are not run again.

    Examples:
        permafrost launch

        permafrost launch --sweep my.yaml --store results --set seeds=[0,1]

        permafrost launch --sweep my.yaml --cluster auto --store s3://my/results

        permafrost launch --sweep my.yaml --max-hours 8

        permafrost launch --sweep my.yaml --pilot

    Exit codes: 0 complete, 1 some trials failed, 2 invalid setting, 3 missing or broken file, 130 or 143 stopped.
    """
    with errors_as_exit_codes():
        where = find_cluster(cluster, cpus=cpus, gpus=gpus)
        declared, document = load_sweep(sweep, settings or [])
        launched = Launch.begin(where, store, stderr, max_hours=max_hours, max_trials=max_trials)
        with launched.lookup(offline=offline) as lookup:
            plan = launched.plan(declared, document, lookup)
        code = _launch(launched, plan, pilot=pilot, dry_run=dry_run, as_json=as_json)
    raise typer.Exit(code)


def _launch(launch: Launch, plan: Plan, *, pilot: bool, dry_run: bool, as_json: bool) -> int:
    for line in plan_lines(plan, launch.results.address, launch.where):
        say(line)
    _show_forecast(plan, launch, pilot=pilot, whole=dry_run)
    if dry_run:
        if as_json:
            print(json.dumps(asdict(outcome_of(plan, launch.results.address, launch.elapsed_s))))
        return 0
    with launch.run(plan) as ended:
        if as_json:
            print(json.dumps(asdict(ended.outcome)))
        else:
            _show_done(Launched.from_end(ended, launch.results))
        _say_end(ended)
        return ended.exit_code


def _show_forecast(plan: Plan, launch: Launch, *, pilot: bool, whole: bool) -> None:
    """Show the forecast of the plan, whole or in one line, where the store has data for one."""
    if not plan.workload:
        return
    forecast = forecast_of(plan, launch.results, launch.where, pilots=Pilots(say) if pilot else None)
    if whole:
        for part in forecast.parts():
            stderr.print(part)
    elif forecast.wall_s is not None:
        say(forecast.line)
    longest_s = max(forecast.seconds.values(), default=0.0)
    if launch.max_hours is not None and launch.max_hours * HOUR < longest_s:
        longest = f"the forecast for the longest trial, {duration(longest_s)}"
        say(f"note    --max-hours {launch.max_hours:g} is less than {longest}.")


def _show_done(done: Launched) -> None:
    """Print the table of the sweep, what a search found, and the answers."""
    table = done.table
    for part in table.parts():
        stdout.print(part)
    for note in table.notes:
        say(f"note    {note}")
    for line in done.found:
        stdout.print_line(line)
    if not done.found:  # a search ends with its own
        show_answers(done.answers())


def _say_end(ended: Ended) -> None:
    """Print which trials failed, why the launch stopped early if it did, and how to resume."""
    if ended.outcome.failed:
        say(f"{amount(ended.outcome.failed, 'trial')} failed; run the same command to retry:")
        stderr.print(failure_table(ended.failures))
    if ended.stopped:
        say(ended.stopped if ended.stop.reason is not None else f"{ended.stopped} Resume with:\n  {typed_command()}")
    store = ended.outcome.store
    say(f"results {store}; show them again with: {sibling_command('status', '--store', store)}")
    say(f"next    {sibling_command('dashboard', store)}")
    say(f"        {sibling_command('answer', '--full', '--store', store)}")

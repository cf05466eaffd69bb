"""Launch a sweep: plan it, run what the store does not have, show what was found.

python -m orchestrator.launch
python -m orchestrator.launch --sweep my.yaml --store results --set seeds=[0,1]
python -m orchestrator.launch --sweep my.yaml --cluster http://head:8265 --store s3://bucket/results --detach
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.bounds import Bounds, hourly_price, too_small, within
from orchestrator.cluster_file import ClusterSpec, find_cluster
from orchestrator.command import (
    DEFAULT_STORE,
    ClusterOption,
    DebugOption,
    JsonOption,
    OfflineOption,
    SettingsOption,
    download_progress,
    reported,
    run,
    say,
    stderr,
    stdout,
)
from orchestrator.forecast.kept import keep_forecast
from orchestrator.forecast.values import Forecast
from orchestrator.lease import take_lease
from orchestrator.outcome import outcome_of, say_end
from orchestrator.plan import Plan, brought_up_to_date, make_plan
from orchestrator.running import Running
from orchestrator.stop import StopRequest
from orchestrator.store import ResultStore, open_store
from orchestrator.summary import summarise
from orchestrator.sweep import load_sweep
from orchestrator.terminal import cell_tables, plan_lines
from trials.draft import Lookup

DEFAULT_SWEEP = Path(__file__).parent.parent / "configs" / "sweeps" / "starter.yaml"


def launch(
    sweep: Annotated[
        Path, typer.Option(metavar="FILE", help="The sweep, in YAML.", show_default="starter.yaml")
    ] = DEFAULT_SWEEP,
    cluster: ClusterOption = "local",
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="DIR",
            help="The results store: a folder, s3://bucket/prefix, gs:// or hdfs://.",
            show_default=f"the cluster file's, else {DEFAULT_STORE}",
        ),
    ] = None,
    settings: SettingsOption = None,
    offline: OfflineOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Submit it to the cluster and return.")] = False,
    max_hours: Annotated[
        float | None,
        typer.Option("--max-hours", metavar="H", help="Stop after so many hours; launching again goes on."),
    ] = None,
    max_trials: Annotated[
        int | None, typer.Option("--max-trials", metavar="N", help="Run so many trials; launching again goes on.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost", metavar="C", help="Stop when trials have cost so much, by the cluster file's prices."
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a sweep; what the store already has is not run again.

    Examples:
        permafrost launch

        permafrost launch --sweep my.yaml --store results --set seeds=[0,1]

        permafrost launch --sweep my.yaml --cluster http://head:8265 --store s3://bucket/results

        permafrost launch --sweep my.yaml --max-hours 8

    Exit codes: 0 done, 1 some trials failed, 2 a wrong setting, 3 a file is absent or broken, 130 and 143 interrupted,
    143 also at a bound.
    """
    with reported(debug=debug):
        started = time.monotonic()
        where, bounds = find_cluster(cluster), Bounds(max_hours, max_trials, max_cost)
        bounds.check(where.prices)
        declared, document = load_sweep(sweep, settings or [])
        if where.is_remote:
            from orchestrator.submit import submit

            told = {"--offline": offline, "--dry-run": dry_run, "--json": as_json, "--debug": debug}
            flags = [*(flag for flag, given in told.items() if given), *bounds.words()]
            code = submit(where, document, sweep=declared.name, store=store or where.store, flags=flags, detach=detach)
            raise typer.Exit(code)
        results = open_store(store or where.store or DEFAULT_STORE, must_exist=False)
        with download_progress() as progress:
            lookup = Lookup(offline=offline, progress=progress)
            plan = make_plan(where.over(declared), document, results, lookup)
        code = _launch(plan, where, results, started, bounds, dry_run=dry_run, as_json=as_json)
    raise typer.Exit(code)


def _launch(
    plan: Plan,
    cluster: ClusterSpec,
    results: ResultStore,
    started: float,
    bounds: Bounds,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    for line in plan_lines(plan, results.address):
        say(line)
    found, stop = _forecast(plan, cluster, results, bounds, whole=dry_run), StopRequest()
    if not dry_run:
        results.create()
        with take_lease(results.place, plan.sweep.name, say=say) as lease:
            results.add_plan(plan.declared())
            plan = brought_up_to_date(plan, results)  # another driver may have been at it until now
            if plan.to_run:
                if found is not None:
                    keep_forecast(results.place, replace(found, time=time.time()))
                running = Running(within(plan, bounds), cluster, results, lease, stop)
                running.go(bounds, hourly=_hourly(plan, cluster), began=started)
            else:
                say("nothing to do: every trial of this sweep is complete in the store.")
    outcome = outcome_of(plan, results, time.monotonic() - started, dry_run=dry_run)
    if not dry_run:
        bounds.settle(stop, left=len(plan.to_run) - outcome.completed - outcome.pruned - outcome.failed)
    if as_json:
        print(json.dumps(asdict(outcome)))
    elif not dry_run:
        for table in cell_tables(summarise(plan.trials, results.trials())):
            stdout.print(table)
    if not dry_run:
        say_end(plan, results, outcome, stop)
    return stop.exit_code if stop.asked else int(outcome.failed > 0)


def _forecast(
    plan: Plan, cluster: ClusterSpec, results: ResultStore, bounds: Bounds, *, whole: bool
) -> Forecast | None:
    """Say what the plan will take, if the store has anything to tell it from: all of it, or in a line."""
    if not plan.to_run:
        return None
    from orchestrator.forecast.shown import forecast_line, forecast_shown
    from orchestrator.forecast.start import forecast_of  # importing scipy takes half a second

    found = forecast_of(plan, results, cluster)
    if whole:
        for shown in forecast_shown(found):
            stderr.print(shown)
    elif found.is_known:
        say(forecast_line(found))
    small = too_small(bounds, found, _hourly(plan, cluster))
    if small:
        say(f"note    {small}")
    return found if found.is_known else None


def _hourly(plan: Plan, cluster: ClusterSpec) -> float:
    """The price of one trial for an hour."""
    resources = plan.sweep.resources
    gpus = 1.0 if resources.gpus == "packed" else resources.gpus
    return hourly_price(cluster.prices, resources.cpus, gpus, resources.device)


if __name__ == "__main__":
    run(launch)

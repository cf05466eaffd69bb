"""Launch a sweep: plan it, run the trials that the store lacks, and show the results.

permafrost launch
permafrost launch --sweep my.yaml --store results --set seeds=[0,1]
permafrost launch --sweep my.yaml --cluster http://head:8265 --store s3://bucket/results --detach
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, NoReturn

import typer
from rich.padding import Padding

from orchestrator.api.launching import Launched, planned
from orchestrator.commands.answer_command import show_answers
from orchestrator.config import options
from orchestrator.config.command_line import configs_folder
from orchestrator.config.console import DEFAULT_STORE, reported, say, stderr, stdout
from orchestrator.config.quantities import counted, points
from orchestrator.config.yaml_document import Document
from orchestrator.execution.recorder import versions
from orchestrator.execution.rerun import Difference, differences, find_trial, rerun
from orchestrator.forecast.forecast import Forecast, forecast_of
from orchestrator.forecast.forecast import as_json as forecast_as_json
from orchestrator.forecast.forecast_text import forecast_line, forecast_tables
from orchestrator.forecast.pilot import Pilots
from orchestrator.session.display import plan_lines, setting_table
from orchestrator.session.outcome import Bounds, limit_note, outcome_of, say_end
from orchestrator.session.session import run_plan
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.cluster_spec import ClusterSpec, device_line, find_cluster
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import MAX_TRIALS, load_sweep
from trials.errors import ConfigError
from trials.spec import steps_an_epoch

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
        started = time.monotonic()
        where, bounds = find_cluster(cluster, cpus=cpus, gpus=gpus), Bounds(max_hours, max_trials, max_cost)
        bounds.check(where.prices)
        declared, document = load_sweep(sweep, settings or [])
        if where.is_remote:
            given = {"--offline": offline, "--dry-run": dry_run, "--json": as_json, "--debug": debug}
            flags = [*given_flags(given), *bounds.options()]
            submit_to(where, document, declared.name, store, flags, pilot=pilot, detach=detach)
        results = open_store(store or where.store or DEFAULT_STORE, must_exist=False)
        plan = planned(declared, document, results, where, offline=offline)
        code = _launch(plan, where, results, started, bounds, pilot=pilot, dry_run=dry_run, as_json=as_json)
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
    from orchestrator.session.submit import submit

    raise typer.Exit(submit(where, document, sweep=sweep, store=store or where.store, flags=flags, detach=detach))


def _launch(
    plan: Plan,
    cluster: ClusterSpec,
    results: ResultStore,
    started: float,
    bounds: Bounds,
    *,
    pilot: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    for line in plan_lines(plan, results.address, cluster):
        say(line)
    _show_forecast(plan, cluster, results, bounds, pilot=pilot, whole=dry_run)
    if dry_run:
        if as_json:
            print(json.dumps(asdict(outcome_of(plan, results, time.monotonic() - started, dry_run=True))))
        return 0
    with run_plan(plan, cluster, results, bounds, began=started) as ended:
        if as_json:
            print(json.dumps(asdict(ended.outcome)))
        else:
            _show_done(Launched.of(ended, results))
        say_end(ended.plan, results, ended.outcome, ended.stop)
        return ended.exit_code


def _show_done(done: Launched) -> None:
    table = done.table
    for part in table.parts():
        stdout.print(part)
    for note in table.notes:
        say(f"note    {note}")
    for line in done.found:
        stdout.print_line(line)
    if not done.found:  # a search ends with its own
        show_answers(done.answers())


def _show_forecast(
    plan: Plan, cluster: ClusterSpec, results: ResultStore, bounds: Bounds, *, pilot: bool, whole: bool
) -> None:
    """Show the forecast of the plan, whole or in one line, where the store has data for one."""
    if not plan.ahead:
        return
    forecast = forecast_of(plan, results, cluster, pilots=Pilots(say) if pilot else None)
    if whole:
        for part in forecast_tables(forecast):
            stderr.print(part)
    elif forecast.is_known:
        say(forecast_line(forecast))
    if note := limit_note(bounds, forecast, cluster.hourly(plan.sweep.resources)):
        say(f"note    {note}")


# Show what a sweep would run and forecast its cost, before anything runs.
#
# permafrost plan --sweep my.yaml
# permafrost plan --sweep my.yaml --pilot  # if the store has no trial on this device


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
    debug: options.Debug = False,
) -> None:
    """Show what a sweep would run, and forecast its time and cost. Nothing is written.

    Examples:
        permafrost plan --sweep my.yaml --store results

        permafrost plan --sweep my.yaml --pilot

        permafrost plan --sweep my.yaml --cluster gpus.yaml --slots 16 --json

    Exit codes: 0 planned, 2 invalid setting, 3 missing or broken file.
    """
    with reported(debug=debug):
        where = find_cluster(cluster, cpus=cpus, gpus=gpus)
        declared, document = load_sweep(sweep, settings or [])
        if where.is_remote:
            flags = ["--dry-run", *given_flags({"--offline": offline, "--json": as_json, "--debug": debug})]
            submit_to(where, document, declared.name, store, flags, pilot=pilot)
        results = open_store(store or where.store or DEFAULT_STORE, must_exist=False)
        fetched = dict[str, None]()
        ahead = planned(
            declared,
            document,
            results,
            where,
            offline=offline,
            fetched=lambda name: fetched.update({name: None}),
        )
        forecast = forecast_of(ahead, results, where, pilots=Pilots(say) if pilot else None, slots=slots)
        if as_json:
            print(json.dumps(_as_json(ahead, forecast, list(fetched), results.address, where)))
        else:
            _show(ahead, forecast, list(fetched), results.address, where)


def _show(plan: Plan, forecast: Forecast, fetched: list[str], store: str, cluster: ClusterSpec) -> None:
    downloads = f"fetched {counted(len(fetched), 'file')} into the cache: {', '.join(fetched[:3])}" if fetched else None
    for line in (*plan_lines(plan, store, cluster), downloads):
        if line:
            stdout.print_line(line)
    stdout.print(Padding(setting_table(plan), (1, 0)))
    for part in forecast_tables(forecast):
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
        "forecast": forecast_as_json(forecast),
    }


# Run one trial of a store again and compare the numbers.
#
# permafrost reproduce 9f2c51d0a1b2c3d4 --store results


def reproduce(
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="The id of a trial, or its first characters.")],
    store: options.Store = DEFAULT_STORE,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Run one trial again, without writing to the store, and compare every number that it computes.

    On a CPU with the same packages and threads the numbers are bit-identical; on a GPU the last digits may differ.

    Examples:
        permafrost reproduce 9f2c51d0

    Exit codes: 0 bit-identical, 1 some number differs, 3 a file is missing or broken, 5 no such completed trial.
    """
    with reported(debug=debug):
        results = open_store(store)
        spec, row = find_trial(results, trial)
        say(f"rerun   {spec.label}, {counted(row['threads'] or 1, 'thread')}; recorded on {row['device']}")
        for line in _other_versions(dict(row["versions"] or ())):
            say(line)
        stored = [r for r in results.epochs().to_pylist() if r["trial_id"] == row["trial_id"]]
        line = "epoch   {:g}  score {}  dev loss {:.6f}"
        rows, _ = rerun(spec, row, lambda r: say(line.format(r.epoch, points(r.score, 4), r.dev_loss)))
        differing = differences(stored, rows)
        if as_json:
            comparison = {"same": not differing, "differences": [asdict(difference) for difference in differing]}
            print(json.dumps({"trial_id": row["trial_id"], **comparison}))
        else:
            for line in _verdict(len(stored), differing):
                stdout.print_line(line)
    raise typer.Exit(int(bool(differing)))


def _other_versions(recorded: dict[str, str]) -> list[str]:
    here = versions()
    return [
        f"note    {name} was {version} when recorded and is {here[name]} here"
        for name, version in recorded.items()
        if name in here and here[name] != version
    ]


def _verdict(n: int, differing: list[Difference]) -> list[str]:
    if not differing:
        return [f"bit-identical: every number of {counted(n, 'evaluation')}."]
    worst = max((d for d in differing if d.column == "score"), key=_size, default=None)
    score = f"; the score differs by at most {100 * _size(worst):.2e} points" if worst else "; no score differs"
    first = differing[0]
    count = "1 number differs" if len(differing) == 1 else f"{len(differing):,} numbers differ"
    return [
        f"{count} in {counted(n, 'evaluation')}{score}.",
        f"first: {first.column} at step {first.step}, stored {_short(first.stored)}, now {_short(first.found)}.",
    ]


def _size(difference: Difference | None) -> float:
    if difference is None or difference.stored is None or difference.found is None:
        return float("inf")
    return abs(float(difference.stored) - float(difference.found))


def _short(value: Any) -> str:
    return f"a list of {counted(len(value), 'value')}" if isinstance(value, list) else str(value)

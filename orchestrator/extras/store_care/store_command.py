"""Maintain a store: verify, repair, compact, delete garbage, export tables or a copy.

permafrost store verify --store results
permafrost store repair --store results --apply
permafrost store compact --store results
permafrost store gc --store results --yes
permafrost export tables tables --format csv --store results
permafrost export store all --store results,other-results
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.claims import BusyStoreError, join
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, command_group, reported, say, stdout
from orchestrator.config.quantities import counted
from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.garbage import find_garbage
from orchestrator.extras.store_care.repair import Repaired, repair
from orchestrator.extras.store_care.store_copy import export_store
from orchestrator.extras.store_care.table_export import Format, export
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import Storage
from orchestrator.store import open_store
from orchestrator.store.schema import TABLES
from trials.errors import StoreError

app = command_group("Verify, repair and compact stores.")


@app.command()
def verify(store: options.Store = DEFAULT_STORE, as_json: options.Json = False, debug: options.Debug = False) -> None:
    """Read a whole store and report every problem. A sweep may be running.

    Examples:
        permafrost store verify --store results

        permafrost store verify --store s3://bucket/results --json

    Exit codes: 0 intact, 1 some problem, 3 no store, or a store of a newer version.
    """
    with reported(debug=debug):
        report = check_store(store)
        if as_json:
            _print_json(report.as_json())
        else:
            for finding in report.findings:
                _line(str(finding))
            for note in report.notes:
                _line(f"note: {note}")
            if report.states:
                _line("trials: " + ", ".join(f"{n:,} {state}" for state, n in report.states.items()))
            n = counted(len(report.findings), "problem")
            _line(f"{report.store}: " + ("intact." if report.ok else f"{n}. Fix with `permafrost store repair`."))
    raise typer.Exit(int(not report.ok))


@app.command("repair")
def repair_(
    store: options.Store = DEFAULT_STORE,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without it, what would be done is listed.")] = False,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """List, and with --apply move, broken files to STORE/quarantine, so that the rest can be used. Nothing is deleted.

    A completed trial that has lost data runs again at the next launch, unless it lost only predictions or weights.

    Examples:
        permafrost store repair --store results

        permafrost store repair --store results --apply

    Exit codes: 0 the store is intact now, 1 some problem is left, 3 no store.
    """
    with reported(debug=debug):
        storage = open_storage(store)
        done = repair(storage, apply=False)  # before anything is written: the folder may not be a store
        if apply:
            with alone(storage, "repair"):
                done = repair(storage)
        if as_json:
            _print_json({"applied": apply, **asdict(done)})
        else:
            _print_repaired(storage, done, applied=apply)
    raise typer.Exit(int(bool(done.left or (done.files and not apply))))


@app.command()
def compact(store: options.Store = DEFAULT_STORE, debug: options.Debug = False) -> None:
    """Merge the small parts of each table, as every launch does at its end.

    Examples:
        permafrost store compact --store results
    """
    with reported(debug=debug):
        results = open_store(store)
        before = _parts(results.storage)
        results.compact()
        after = _parts(results.storage)
        for name, n in before.items():
            _line(f"{name}: {counted(n, 'part')} before, {after[name]:,} now")


@app.command()
def gc(
    store: options.Store = DEFAULT_STORE,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the files. Without it they are only listed.")] = False,
    debug: options.Debug = False,
) -> None:
    """List, and with --yes delete, files that nothing needs: of killed writers, and checkpoints of completed trials.

    Weights of trials that did not complete are deleted, too. The quarantine is kept.

    Examples:
        permafrost store gc --store results

        permafrost store gc --store results --yes
    """
    with reported(debug=debug):
        storage = open_store(store).storage
        garbage = find_garbage(storage)
        if yes and garbage:
            with alone(storage, "delete"):
                for file in garbage:
                    file.folder_in(storage).delete(file.name)
        for file in garbage:
            _line(f"{file.path}  {file.n_bytes:,} bytes, {file.why}")
        total = f"{counted(len(garbage), 'file')}, {sum(file.n_bytes for file in garbage) / 1e6:.1f} MB"
        _line("nothing to delete." if not garbage else f"deleted {total}." if yes else f"{total}; delete with --yes.")


def export_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder.")],
    form: Annotated[Format, typer.Option("--format", help="The file format.")] = Format.CSV,
    store: options.Store = DEFAULT_STORE,
    debug: options.Debug = False,
) -> None:
    """Export the tables for other programs, without duplicates, with a description of each column.

    Examples:
        permafrost export tables tables --store results

        permafrost export tables tables --store results --format parquet
    """
    with reported(debug=debug):
        for name, n in export(open_store(store), folder, form).items():
            _line(f"{folder / name}.{form}  {counted(n, 'row')}")


def export_store_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    store: options.Store = DEFAULT_STORE,
    debug: options.Debug = False,
) -> None:
    """Write a compact copy of a store for others, without weights and without the folders of this machine.

    It holds the newest attempt of every ended trial, and each sweep's newest plan. Several stores become one.

    Examples:
        permafrost export store to-share --store results

        permafrost export store together --store results,s3://bucket/results

    Exit codes: 0 written, 3 no store, 4 the folder is not empty.
    """
    with reported(debug=debug):
        for name, n in export_store(open_store(store), folder).items():
            _line(f"{name}  {counted(n, 'row')}")
        _line(f"next    permafrost dashboard {folder}")


@contextlib.contextmanager
def alone(storage: Storage, doing: str) -> Iterator[None]:
    """Have a store to oneself while the block runs.

    Args:
        doing: What the block does, a verb for the error message.

    Raises:
        StoreError: a driver is running a sweep of the store, or another command has it alone.
    """
    try:
        with join(storage, say=say) as membership:
            membership.await_turn(membership.others, "Wait until it ends, or stop that process.")
            yield
    except BusyStoreError as error:
        raise StoreError(f"cannot {doing} now: {error}") from error


def _print_repaired(storage: Storage, done: Repaired, *, applied: bool) -> None:
    for file in done.files:
        _line(f"{'moved' if applied else 'would move'} {file}")
    for trial_id, why in done.trials.items():
        counts = "no longer counts" if applied else "would no longer count"
        _line(f"trial {trial_id} {counts} as completed, so the next launch runs it: {why}")
    for trial_id, lost in done.losses.items():
        _line(f"trial {trial_id} does not run again, but {lost}")
    if done.files and not applied:
        _line(f"{storage}: nothing was changed. Add --apply to do this.")
    for folder in done.folders:
        _line(f"moved to {folder}; why.json has the reasons")
    for finding in done.left:
        _line(f"not repaired: {finding}")
    if not done.files:
        _line(f"{storage}: nothing to repair.")


def _parts(storage: Storage) -> dict[str, int]:
    return {name: len(storage.at(name).files()) for name in TABLES}


def _line(text: str) -> None:
    stdout.print_line(text)


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content))

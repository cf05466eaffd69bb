"""Maintain a store: verify it, note what a sweep is for, export tables or a copy.

permafrost store verify --store results
permafrost store note starter "For the paper" --tag paper
permafrost export tables tables --format csv --store results
permafrost export store all --store results,other-results
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, command_group, errors_as_exit_codes, say, stdout
from orchestrator.config.quantities import amount
from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.exports import Format, export_store, export_tables
from orchestrator.store import open_store
from orchestrator.store.results import MARKER
from orchestrator.store.sweep_notes import checked_note, notes_by_sweep, write_note

app = command_group("Verify stores and note sweeps.")


@app.command()
def verify(store: options.Store = DEFAULT_STORE, as_json: options.Json = False) -> None:
    """Read a whole store and report every problem. A sweep may be running.

    Examples:
        permafrost store verify --store results

        permafrost store verify --store s3://bucket/results --json

    Exit codes: 0 intact, 1 some problem, 3 no store, or a store of a newer version.
    """
    with errors_as_exit_codes():
        report = check_store(store)
        if as_json:
            typer.echo(json.dumps(report.as_json()))
        else:
            for finding in report.findings:
                _line(str(finding))
            for note in report.notes:
                _line(f"note: {note}")
            if report.states:
                _line("trials: " + ", ".join(f"{n:,} {state}" for state, n in report.states.items()))
            _line(f"{report.store}: {report.verdict}")
    raise typer.Exit(int(not report.ok))


@app.command("note")
def note_(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="The name of a sweep.")],
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="One line; '' deletes the note.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; repeatable.")] = None,
    store: options.Store = DEFAULT_STORE,
) -> None:
    """Note a text and tags on a sweep in place of those before, or show them, as `status` and the dashboard do.

    Examples:
        permafrost store note starter "For the paper" --tag paper --tag final
    """
    with errors_as_exit_codes():
        results, note = open_store(store), checked_note(text or "", tags or ())
        name = results.sweep(sweep).name
        if text is not None or tags:
            write_note(results.storage, name, note)
        _line(str(notes_by_sweep(results.storage).get(name, f"No note on {name}.")))


def export_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The output folder.")],
    form: Annotated[Format, typer.Option("--format", help="The file format.")] = Format.CSV,
    store: options.Store = DEFAULT_STORE,
) -> None:
    """Export the tables for other programs, without duplicates, with a description of each column.

    Examples:
        permafrost export tables tables --store results

        permafrost export tables tables --store results --format parquet
    """
    with errors_as_exit_codes():
        for name, n in export_tables(open_store(store), folder, form).items():
            _line(f"{folder / name}.{form}  {amount(n, 'row')}")


def export_store_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    store: options.Store = DEFAULT_STORE,
) -> None:
    """Write a compact copy of a store for others, without weights and without the folders of this machine.

    It holds the newest attempt of every ended trial, and each sweep's newest plan and note. Several stores become one.

    Examples:
        permafrost export store to-share --store results

        permafrost export store together --store results,s3://bucket/results

    Exit codes: 0 written, 1 written without what is broken in the store, 3 no store, 4 the folder is not empty.
    """
    with errors_as_exit_codes():
        results = open_store(store)
        for name, n in export_store(results, folder).items():
            _line(f"{name}  {amount(n, 'row')}")
        _line(f"next    permafrost dashboard {folder}")
        missing = [found for found in check_store(results.storage, tensors=False).findings if found.place != MARKER]
        for finding in missing:
            say(str(finding))
        if missing:
            say(f"{folder}: not a whole copy: {amount(len(missing), 'problem')} of {results.address}.")
            raise typer.Exit(1)


def _line(text: str) -> None:
    stdout.print_line(text)

"""Notes on trials and settings: write, list, remove. They are rows of the store, and the dashboard shows them.

permafrost note add 3f2a "loss jumps at epoch 2" --label odd
permafrost note list --label odd
permafrost note remove 91c0
"""

from __future__ import annotations

import getpass
import json
from typing import Annotated

import typer

from orchestrator.config.console import (
    DEFAULT_STORE,
    DebugOption,
    JsonOption,
    StoreOption,
    command_group,
    reported,
    say,
    stdout,
)
from orchestrator.store import ResultStore, open_store
from orchestrator.store.notes import Note, notes_in, remove_note, write_note
from orchestrator.store.specs import LISTING, only_match, stored_spec
from trials.errors import NothingMatchedError
from trials.spec import TrialSpec

app = command_group("Write, list and remove notes on trials and settings.")
_LISTING = "permafrost note list"


@app.command()
def add(
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="Id of a trial, or its first digits.")],
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="What the note says.")] = "",
    label: Annotated[list[str] | None, typer.Option(metavar="LABEL", help="A label; repeatable.")] = None,
    setting: Annotated[
        bool, typer.Option("--setting", help="The note is about the trial's setting, with all its seeds.")
    ] = False,
    author: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who writes it.", show_default="your name on this machine")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    debug: DebugOption = False,
) -> None:
    """Write a note on a trial, or with --setting on its setting. A sweep may be running.

    Examples:
        permafrost note add 3f2a "loss jumps at epoch 2" --label odd --label rerun

        permafrost note add 3f2a "as in the paper" --setting --store results

    Exit codes: 0 written, 2 invalid text or label, 3 no store, 5 no such trial.
    """
    with reported(debug=debug):
        results = open_store(store)
        spec = _planned_or_run(results, trial)
        by = _user() if author is None else author
        note = write_note(
            results, spec.trial_id, text, label or (), author=by, setting=spec.cell_id if setting else None
        )
        say(f"note {note.note_id} on {_subject(note)}, {spec.label}")


@app.command("list")
def list_(
    trial: Annotated[
        str | None, typer.Argument(metavar="[TRIAL]", help="Only notes on this trial and its setting.")
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="LABEL", help="Only notes with this label.")] = None,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the notes of a store, the oldest first.

    Examples:
        permafrost note list --store results

        permafrost note list 3f2a --label odd --json

    Exit codes: 0 success, 3 no store, 5 no such trial, or no note on it or with the label.
    """
    with reported(debug=debug):
        results = open_store(store)
        spec = None if trial is None else _planned_or_run(results, trial)
        found = [
            note
            for note in notes_in(results.notes())
            if (spec is None or note.is_about(spec.trial_id, spec.cell_id)) and label in (None, *note.labels)
        ]
        if not found and (trial or label):
            raise NothingMatchedError(f"{results.address} has no such note. `{_LISTING}` lists all.")
        if as_json:
            print(json.dumps({"notes": [{**vars(note), "time": note.time.isoformat()} for note in found]}))
            return
        for note in found:
            by = f", {note.author}" if note.author else ""
            stdout.print_line(f"{note.note_id}  {_subject(note)}  {note}  ({note.time:%Y-%m-%d %H:%M} UTC{by})")
        if not found:
            say(f"{results.address} has no note.")


@app.command()
def remove(
    note: Annotated[str, typer.Argument(metavar="NOTE", help="Id of a note, or its first digits.")],
    store: StoreOption = DEFAULT_STORE,
    debug: DebugOption = False,
) -> None:
    """Remove a note for all readers.

    Examples:
        permafrost note remove 91c0 --store results

    Exit codes: 0 removed, 2 several notes begin with these digits, 3 no store, 5 no such note.
    """
    with reported(debug=debug):
        results = open_store(store)
        notes = {each.note_id: each for each in notes_in(results.notes())}
        found = notes[only_match(note, notes, "note", results.address, _LISTING)]
        remove_note(results, found)
        say(f"removed note {found.note_id} on {_subject(found)}: {found}")


def _planned_or_run(results: ResultStore, prefix: str) -> TrialSpec:
    """The spec of a trial, which need not have run. Raises as `only_match` does."""
    planned = {trial_id: spec for plan in results.sweeps() for trial_id, spec in plan.trials}
    rows = results.trials(["spec"])
    ended = dict(zip(rows["trial_id"].to_pylist(), rows["spec"].to_pylist(), strict=True))
    specs = {**planned, **ended}
    trial_id = only_match(prefix, specs, "trial", results.address, LISTING)
    return stored_spec(specs[trial_id], trial_id)


def _subject(note: Note) -> str:
    return f"the setting of trial {note.trial_id}" if note.setting else f"trial {note.trial_id}"


def _user() -> str | None:
    """The name of whoever runs this; None where the machine knows none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None

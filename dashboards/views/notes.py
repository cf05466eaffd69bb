"""Notes: what people wrote about trials and settings, and a form to write more where the dashboard may write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dash
import dash_mantine_components as dmc
import pandas as pd
from dash import MATCH, Input, Output, State, html, no_update
from pydantic import validate_call

from dashboards.data.frames import Snapshot
from dashboards.data.selection import Selection
from dashboards.views.components import part_id
from dashboards.views.drawing import freeze_column
from dashboards.views.part import Part
from dashboards.views.view import PageState
from orchestrator.store.notes import Note, write_note
from trials.errors import ConfigError, StoreError
from trials.escaping.untrusted_text import escaped
from trials.settings import Seeds


def prepare_notes(selection: Selection) -> pd.DataFrame:
    """One row per note on a selected trial or its setting, the newest first."""
    trials = selection.trials.set_index("trial_id", drop=False)
    cells = trials.drop_duplicates("cell").set_index("cell")
    rows = []
    for note in reversed(selection.snapshot.notes):
        known, key = (cells, note.setting) if note.setting else (trials, note.trial_id)
        if key in known.index:
            row = known.loc[key]
            rows.append(
                {
                    "trial": note.trial_id,
                    "about": "all seeds" if note.setting else f"seed {Seeds.label_of(int(row['seed']))}",
                    "frozen": row["freeze"],
                    "train size": int(row["train_size"]),
                    "labels": ", ".join(note.labels),
                    "note": note.text,
                    "by": note.author or "",
                    "written": _when(note),
                    "n_layers": row["n_layers"],
                }
            )
    if not rows:
        return pd.DataFrame()
    table = pd.DataFrame(rows)
    return table.assign(frozen=freeze_column(table["frozen"], table["n_layers"])).drop(columns="n_layers")


def notes_by_trial(selection: Selection) -> list[str]:
    """What the notes on each selected trial and its setting say, one text a trial; empty without any."""
    of_trial, of_setting = dict[str, list[str]](), dict[str, list[str]]()
    for note in selection.snapshot.notes:
        found = of_setting.setdefault(note.setting, []) if note.setting else of_trial.setdefault(note.trial_id, [])
        found.append(escaped(str(note)))
    pairs = zip(selection.trials["trial_id"], selection.trials["cell"], strict=True)
    return ["; ".join([*of_trial.get(trial_id, []), *of_setting.get(cell, [])]) for trial_id, cell in pairs]


def notes_of_trial(snapshot: Snapshot, row: Mapping[str, Any]) -> list[Any]:
    """The notes on a trial and its setting, and the form if visitors may write."""
    trial_id = str(row["trial_id"])
    found = html.Div(_listed(snapshot, row), id=part_id("notes", trial_id))
    return [found, _form(trial_id)] if snapshot.takes_notes else [found]


def _listed(snapshot: Snapshot, row: Mapping[str, Any]) -> Any:
    found = [note for note in snapshot.notes if note.is_about(row["trial_id"], row["cell"])]
    if not found:
        return dmc.Text("No note on this trial or its setting yet.", size="sm")
    return html.Ul([html.Li(_line(note)) for note in found])


def _line(note: Note) -> list[Any]:
    about = ["on the setting"] if note.setting else []
    by = [escaped(note.author)] if note.author else []
    words = f" ({', '.join([*about, *by, _when(note)])}; id {note.note_id})"
    return [escaped(str(note)), dmc.Text(words, size="xs", span=True)]


def _when(note: Note) -> str:
    return f"{note.time:%Y-%m-%d %H:%M} UTC"


def _form(trial_id: str) -> Any:
    """Fields for a note; what it says after the button is clicked is read out."""
    fields = dmc.Group(
        [
            dmc.TextInput(id=part_id("note-labels", trial_id), label="Labels, separated by commas", value=""),
            dmc.TextInput(id=part_id("note-author", trial_id), label="Your name (optional)", value=""),
        ]
    )
    return dmc.Stack(
        [
            dmc.Textarea(
                id=part_id("note-text", trial_id),
                label="New note",
                value="",
                autosize=True,
                minRows=2,
                maxRows=8,
            ),
            fields,
            dmc.Checkbox(id=part_id("note-setting", trial_id), label="About the setting, with all its seeds"),
            dmc.Group(
                [
                    html.Div(
                        html.Button("Save note", type="button", id=part_id("note-save", trial_id)), className="tools"
                    ),
                    html.Div(id=part_id("note-said", trial_id), role="status"),
                ]
            ),
        ],
        gap="xs",
        mt="sm",
    )


def add_note_callbacks(app: dash.Dash, select: Callable[[str], Selection]) -> None:
    """Show notes when the store has new ones, and write those of the form."""

    @app.callback(  # type: ignore[untyped-decorator]
        output=Output(part_id("notes", MATCH), "children"),
        inputs={"version": Input("version", "data"), "state": State("state", "data")}
        | {"name": State(part_id("notes", MATCH), "id")},
        prevent_initial_call=True,
    )
    @validate_call
    def show_notes(version: int, state: PageState, name: Mapping[str, str]) -> Any:
        snapshot = select(state["search"]).snapshot
        row = snapshot.trial(name["part"])
        return no_update if row is None else _listed(snapshot, row)

    @app.callback(  # type: ignore[untyped-decorator]
        output={
            "shown": Output(part_id("notes", MATCH), "children", allow_duplicate=True),
            "said": Output(part_id("note-said", MATCH), "children"),
            "text": Output(part_id("note-text", MATCH), "value"),
            "labels": Output(part_id("note-labels", MATCH), "value"),
        },
        inputs={
            "clicks": Input(part_id("note-save", MATCH), "n_clicks"),
            "text": State(part_id("note-text", MATCH), "value"),
            "labels": State(part_id("note-labels", MATCH), "value"),
            "author": State(part_id("note-author", MATCH), "value"),
            "of_setting": State(part_id("note-setting", MATCH), "checked"),
            "name": State(part_id("note-save", MATCH), "id"),
            "state": State("state", "data"),
        },
        prevent_initial_call=True,
    )
    @validate_call
    def save_note(
        clicks: int | None,
        text: str | None,
        labels: str | None,
        author: str | None,
        of_setting: bool | None,
        name: Mapping[str, str],
        state: PageState,
    ) -> Any:
        same = dict.fromkeys(("shown", "said", "text", "labels"), no_update)
        if not clicks:
            return same
        problem = _write(
            select(state["search"]).snapshot,
            name["part"],
            text or "",
            (labels or "").split(","),
            author=author,
            of_setting=bool(of_setting),
        )
        if problem:
            return same | {"said": f"Not saved: {problem}"}
        snapshot = select(state["search"]).snapshot
        row = snapshot.trial(name["part"])
        return {"shown": None if row is None else _listed(snapshot, row), "said": "Saved.", "text": "", "labels": ""}


def _write(
    snapshot: Snapshot, trial_id: str, text: str, labels: list[str], *, author: str | None, of_setting: bool
) -> str:
    """Write a note; why it was not written, or nothing."""
    row = snapshot.trial(trial_id)
    if not snapshot.takes_notes or row is None:
        return "This dashboard only reads." if row is not None else "The store has no such trial."
    try:
        write_note(
            snapshot.store, trial_id, text, labels, author=author, setting=str(row["cell"]) if of_setting else None
        )
    except (ConfigError, StoreError) as error:
        return str(error)
    return ""


NOTES = Part(
    "trials-notes",
    "Notes",
    "What people wrote about these trials and their settings, the newest first.",
    prepare_notes,
    lambda info: info,
    why_empty=lambda info: (
        "" if len(info) else "No note yet. Write one on a trial's page, or with permafrost note add."
    ),
)

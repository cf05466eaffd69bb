"""Notes that people write about trials and settings, with labels.

A note has an id of its own, and its removal is a row of its own: rows are only added, so writers need no lock and none
replaces what another wrote. A note that was removed stays removed, in whatever order parts are read or merged.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from orchestrator.store.results import ResultStore
from trials.errors import ConfigError

MAX_CHARACTERS, MAX_LABELS, MAX_LABEL = 2_000, 10, 40


@dataclass(frozen=True)
class Note:
    """A note.

    Attributes:
        note_id: 16 hex digits.
        trial_id: The trial that it is about; of a setting, the trial at which it was written.
        setting: `TrialSpec.cell_id` if it is about a setting; None if it is about the trial alone.
        text: On one line, which may be empty where there are labels.
    """

    note_id: str
    trial_id: str
    setting: str | None
    text: str
    labels: tuple[str, ...]
    author: str | None
    time: datetime

    def is_about(self, trial_id: str, setting: str) -> bool:
        """Whether it is about this trial or its setting."""
        return self.setting == setting if self.setting else self.trial_id == trial_id

    def __str__(self) -> str:
        return " ".join([*(f"[{label}]" for label in self.labels), *([self.text] if self.text else [])])


def notes_in(rows: pa.Table) -> list[Note]:
    """The notes in rows of `ResultStore.notes`."""
    return [
        Note(
            row["note_id"],
            row["trial_id"] or "",
            row["setting"],
            row["text"] or "",
            tuple(row["labels"] or ()),
            row["author"],
            row["time"],
        )
        for row in rows.to_pylist()
    ]


def write_note(
    store: ResultStore,
    trial_id: str,
    text: str,
    labels: Iterable[str] = (),
    *,
    author: str | None = None,
    setting: str | None = None,
) -> Note:
    """Add a note about a trial, or about its setting.

    Args:
        store: Holds or plans the trial.
        text: White space, line breaks too, becomes single spaces.
        labels: Likewise; a repeated one counts once.
        author: Who writes it, if known.
        setting: `TrialSpec.cell_id` of the trial if the note is about all seeds of its setting.

    Raises:
        ConfigError: there is neither text nor label, or something is too long.
        StoreError: the store cannot be written.
    """
    text, labels = _one_line(text), tuple(dict.fromkeys(filter(None, map(_one_line, labels))))
    author = _one_line(author or "") or None
    if problems := list(_problems(text, labels, author)):
        raise ConfigError(problems)
    note = Note(secrets.token_hex(8), trial_id, setting, text, labels, author, datetime.now(UTC))
    _append(store, note, removed=False)
    return note


def remove_note(store: ResultStore, note: Note) -> None:
    """Remove a note, for all readers and for good. Raises StoreError."""
    _append(store, note, removed=True)


def _append(store: ResultStore, note: Note, *, removed: bool) -> None:
    store.append("notes", [{**vars(note), "labels": list(note.labels), "removed": removed}])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _problems(text: str, labels: tuple[str, ...], author: str | None) -> Iterable[str]:
    if not text and not labels:
        yield "a note needs a text or a label."
    if len(text) > MAX_CHARACTERS:
        yield f"the text has {len(text):,} characters. Shorten it to {MAX_CHARACTERS:,}."
    if len(labels) > MAX_LABELS:
        yield f"{len(labels)} labels are too many. Use at most {MAX_LABELS}."
    for words in (*labels, author or ""):
        if len(words) > MAX_LABEL:
            yield f"{words[:MAX_LABEL]!r}... is longer than {MAX_LABEL} characters. Shorten it."

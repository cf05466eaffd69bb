"""What people note on a sweep, a line and tags. No trial, plan or answer depends on it.

It is the newest file `sweeps/<sweep>/note-<time>-<digest>.json` of a store; those before it are deleted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.config.yaml_document import faults
from orchestrator.storage.storage import BrokenError, Storage
from orchestrator.store.parts import report
from orchestrator.store.plans import SWEEPS, SweepName
from orchestrator.store.schema import WRONG_DIGEST, is_intact, read_intact, stamp_of, stamped_name
from trials.errors import ConfigError
from trials.escaping import escape_line

_MOST_BYTES = 1 << 16  # of a file; the longest note has some 10 kB


class SweepNote(BaseModel):
    """A text of one visible line, and tags, each in the letters of a sweep's name; empty where nobody wrote one."""

    model_config = ConfigDict(frozen=True)
    text: Annotated[str, Field(max_length=500), AfterValidator(lambda t: escape_line(" ".join(t.split())))] = ""
    tags: Annotated[tuple[SweepName, ...], Field(max_length=20), AfterValidator(lambda t: tuple(dict.fromkeys(t)))] = ()

    def __str__(self) -> str:
        """The note in one line: `Rerun with the new tokenizer #paper`."""
        return " ".join(filter(None, [self.text, *(f"#{tag}" for tag in self.tags)]))


def newest_note(folder: Storage, names: Collection[str] | None = None) -> SweepNote:
    """The newest note in a sweep's folder; empty if there is none, or none that can be read, which is reported.

    Args:
        folder: Of the sweep.
        names: Its files, where they were listed just now.
    """
    for name in sorted(filter(is_note, folder.files() if names is None else names), reverse=True):
        try:
            return read_note(folder, name)
        except BrokenError as error:
            report(str(error))
        except FileNotFoundError:  # a newer one has replaced it meanwhile
            return SweepNote() if names is None else newest_note(folder)
    return SweepNote()


def notes_by_sweep(storage: Storage) -> dict[str, SweepNote]:
    """The newest note of every sweep of a store that has one."""
    folders = storage.subfolder(SWEEPS)
    found = {name: newest_note(folders.subfolder(name), names) for name, names in folders.files_by_folder().items()}
    return {name: note for name, note in found.items() if note != SweepNote()}


def is_note(name: str) -> bool:
    """Whether a file of this name is a note."""
    return name.startswith("note-") and name.endswith(".json")


def read_note(folder: Storage, name: str) -> SweepNote:
    """Read a note. Raises BrokenError and FileNotFoundError."""
    try:
        content = read_intact(folder, name)
        if content.size > _MOST_BYTES or not is_intact(name, content):
            raise ValueError(WRONG_DIGEST if content.size <= _MOST_BYTES else f"has more than {_MOST_BYTES} bytes")
        return SweepNote.model_validate_json(content.to_pybytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # pydantic's, too
        wrong = faults(error, SweepNote)[0].text if isinstance(error, ValidationError) else error
        way_out = "Delete it, and write the note again with `permafrost store note`"
        raise BrokenError(f"{folder}/{name}", f"not a readable note ({wrong})", way_out) from error


def change_note(storage: Storage, sweep: str, text: str | None, tags: Sequence[str] | None) -> SweepNote:
    """The note of a sweep of a store, with another text and tags, where these are not None.

    Raises:
        ConfigError: the text is too long, or a tag has other characters than a name.
        StoreError: the storage cannot be read or written.
    """
    before = newest_note(storage.subfolder(SWEEPS).subfolder(sweep))
    try:
        after = SweepNote.model_validate(before.model_dump() | _given(text=text, tags=tags))
    except ValidationError as error:
        names = {"text": "TEXT", "tags": "--tag"}
        wrong = [f"{names[str(fault.path[0])]}: {fault.text}" for fault in faults(error, SweepNote)]
        raise ConfigError(wrong) from error
    if after != before:
        write_note(storage, sweep, after)
    return after


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def write_note(storage: Storage, sweep: str, note: SweepNote) -> None:
    """Write a note, newer than all of a sweep, and delete those. Raises StoreError."""
    folder = storage.subfolder(SWEEPS).subfolder(sweep)
    older = list(filter(is_note, folder.files()))
    content = f"{note.model_dump_json()}\n".encode()
    stamp_ns = max(time.time_ns(), *(stamp_of(name) + 1 for name in older), 0)
    folder.write(stamped_name("note", stamp_ns, content, "json"), content)
    for name in older:
        folder.delete(name)

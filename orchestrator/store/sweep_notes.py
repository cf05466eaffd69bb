"""What people note on a sweep, a line and tags. No trial, plan or answer depends on it.

It is the newest file `sweeps/<sweep>/note-<time>-<digest>.json` of a store; those before it are deleted.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from orchestrator.config.yaml_document import faults
from orchestrator.storage.storage import BrokenError, Storage
from orchestrator.store.parts import report
from orchestrator.store.plans import SWEEPS, SweepName
from orchestrator.store.schema import WRONG_DIGEST, is_intact, read_intact, stamp_of, stamped_name
from trials.errors import ConfigError
from trials.escaping import escape_line


class SweepNote(BaseModel, frozen=True):
    """A text of one visible line, and tags, each in the letters of a sweep's name; empty where nobody wrote one."""

    text: Annotated[str, Field(max_length=500), AfterValidator(lambda t: escape_line(" ".join(t.split())))] = ""
    tags: Annotated[tuple[SweepName, ...], Field(max_length=20), AfterValidator(lambda t: tuple(dict.fromkeys(t)))] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, [self.text, *(f"#{tag}" for tag in self.tags)]))


def checked_note(text: str, tags: Sequence[str]) -> SweepNote:
    """A note as a person typed it. Raises ConfigError: it is too long, or a tag has other characters than a name."""
    try:
        return SweepNote.model_validate({"text": text, "tags": tags})
    except ValidationError as error:
        raise ConfigError([f"{fault.path[0]}: {fault.text}" for fault in faults(error, SweepNote)]) from error


def newest_note(folder: Storage, names: Collection[str]) -> SweepNote:
    """The newest note among the files of a sweep's folder that can be read, else an empty one; others are reported."""
    for name in sorted(filter(is_note, names), reverse=True):
        try:
            return read_note(folder, name)
        except BrokenError as error:
            report(str(error))
        except FileNotFoundError:  # a newer one has replaced it meanwhile
            return newest_note(folder, folder.files())
    return SweepNote()


def notes_by_sweep(storage: Storage) -> dict[str, SweepNote]:
    """The newest note of every sweep of a store that has one."""
    folders = storage.subfolder(SWEEPS)
    found = {name: newest_note(folders.subfolder(name), names) for name, names in folders.files_by_folder().items()}
    return {name: note for name, note in found.items() if str(note)}


def is_note(name: str) -> bool:
    """Whether a file of this name is a note."""
    return name.startswith("note-") and name.endswith(".json")


def read_note(folder: Storage, name: str) -> SweepNote:
    """Read a note. Raises BrokenError and FileNotFoundError."""
    try:
        content = read_intact(folder, name)
        if content.size > 1 << 16 or not is_intact(name, content):  # the longest note has some 10 kB
            raise ValueError(f"{WRONG_DIGEST}, or they are too many")
        return SweepNote.model_validate_json(content.to_pybytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # pydantic's, too
        wrong = faults(error, SweepNote)[0].text if isinstance(error, ValidationError) else error
        raise BrokenError(f"{folder}/{name}", f"not a readable note ({wrong})", "Delete it; note it again") from error


def write_note(storage: Storage, sweep: str, note: SweepNote) -> None:
    """Write a note, newer than all of a sweep, and delete those. Raises StoreError."""
    folder = storage.subfolder(SWEEPS).subfolder(sweep)
    older, content = list(filter(is_note, folder.files())), f"{note.model_dump_json()}\n".encode()
    stamp_ns = max(time.time_ns(), *(stamp_of(name) + 1 for name in older), 0)
    folder.write(stamped_name("note", stamp_ns, content, "json"), content)
    for name in older:
        folder.delete(name)

"""The `watch` key of a sweep or cluster file: `watch: {log: sweep.jsonl}`, one line per event."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from trials.settings import Frozen


class WatchSpec(Frozen):
    """Monitoring of a sweep; not part of a trial's identity.

    Attributes:
        log: File to which the log is appended, one JSON object per line, new or an earlier log; None for no log.
    """

    log: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("log")
    @classmethod
    def _is_log(cls, path: str | None) -> str | None:
        if path is not None and (_is_hidden(path) or not path.endswith(".jsonl")):
            raise ValueError("name a file that ends in .jsonl; neither it nor a folder may start with a dot")
        return path


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in Path(path).parts)

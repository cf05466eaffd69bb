"""What a file of an offline run of W&B holds: LevelDB's log of W&B's own protocol buffers, which `wandb sync` reads."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK, _MAGIC = 32_768, b":W&B"
_FULL, _LAST = 1, 4


@dataclass
class OfflineRun:
    """One run: `history` has the values of each step without W&B's own times."""

    about: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None


def read_offline_run(path: Path) -> OfflineRun:
    """Read `run-ID.wandb`."""
    found = OfflineRun()
    for record in _records(path.read_bytes()):
        match record.WhichOneof("record_type"):
            case "run":
                run = record.run
                found.about = {"id": run.run_id, "name": run.display_name, "group": run.run_group}
                found.config = _values(run.config.update)
            case "history":
                found.history.append({"_step": record.history.step.num, **_values(record.history.item)})
            case "summary":
                found.summary |= _values(record.summary.update)
            case "exit":
                found.exit_code = record.exit.exit_code
    return found


def _values(items: Iterable[Any]) -> dict[str, Any]:
    named = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
    return {name: value for name, value in sorted(named.items()) if not name.startswith("_") or name == "_timestamp"}


def _records(content: bytes) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    assert content.startswith(_MAGIC)
    position, whole = 7, b""  # magic, a number, a version
    while position + 7 <= len(content):
        left = _BLOCK - position % _BLOCK
        if left < 7:  # a header is never split
            position += left
            continue
        _, size, kind = struct.unpack("<IHB", content[position : position + 7])
        position += 7
        whole, position = whole + content[position : position + size], position + size
        if kind in (_FULL, _LAST):
            yield Record.FromString(whole)
            whole = b""

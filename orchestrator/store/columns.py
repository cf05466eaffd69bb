"""The data dictionary that an export brings along: every column of the store with its description."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from orchestrator.store.schema import COLUMNS, SCHEMA_VERSION

ABOUT = {
    "epochs": "A row an evaluation on dev, of each trial's newest attempt.",
    "trials": "A row a trial that has ended, by its newest attempt. Only `completed` ones belong in a mean.",
    "tags": "A row a label of each scored split, with the weights of the best epoch.",
    "predictions": "A row a sentence or text of each scored split, with the weights of the best epoch.",
    "contributions": "A row a scored split, with the weights of the best epoch: the score, sentence by sentence.",
    "notes": "A row a note that somebody wrote about a trial or a setting and nobody removed.",
    "probes": "A row a linear probe of the untouched encoder (`permafrost layers`): one train subset, one depth.",
    "drifts": "A row a part of the encoder of a trial with stored weights: how far training moved it.",
}


def dictionary() -> str:
    """The data dictionary, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Columns\n\nOf store version {SCHEMA_VERSION}. `_s` are seconds, `_bytes` bytes, `_j` joules. In CSV a"
    yield "list is JSON; a map has a column a key (`best_metrics.accuracy`), and what is not there is an empty cell.\n"
    for table, columns in COLUMNS.items():
        yield f"## {table}\n\n{ABOUT[table]}\n\n| column | type | what |\n|---|---|---|"
        for name, (kind, about) in columns.items():
            yield f"| `{name}` | {_type(kind)} | {about} |"
        yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return f"{kind.key_type} to {kind.item_type}" if pa.types.is_map(kind) else str(kind).replace("[us, tz=UTC]", "")

"""A compact copy of a store, or of several as one, to be given away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.store.results import ResultStore
from orchestrator.store.schema import COLUMNS, COMMIT_ORDER, KEYS
from trials.datasets.corpus import SPLITS
from trials.errors import RefusedError
from trials.escaping import json_text


def export_store(store: ResultStore, folder: Path) -> dict[str, int]:
    """Write a compact copy of a store into a folder, to be given away: the newest attempt of each ended trial and the
    newest plan of each sweep, without weights, checkpoints and the folders of this machine; the rows of each table.

    Of every path in a spec the last two parts stay, as in `my-treebank/dev.conllu`; no trial's id depends on them.

    Raises:
        RefusedError: the folder is not empty.
        StoreError: the store cannot be read, or the folder cannot be written.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RefusedError(f"{folder}: is not empty. Give a new folder.")
    rows: dict[str, list[dict[str, Any]]] = {table: getattr(store, table)().to_pylist() for table in COLUMNS}
    for row in rows["trials"]:
        row["spec"] = json_text(without_folders(json.loads(row["spec"])))
    ended = {row["trial_id"] for row in rows["trials"]}
    rows["commits"] = [{name: row[name] for name in KEYS["commits"]} for row in rows["trials"]]
    new = ResultStore(folder)
    for table in COMMIT_ORDER:
        rows[table] = [row for row in rows[table] if row["trial_id"] in ended]
        if rows[table]:
            new.append(table, rows[table])
    for plan in store.sweeps():
        shown = tuple((trial_id, without_folders(spec)) for trial_id, spec in plan.trials)
        new.add_plan(replace(plan, source=_last_parts(plan.source), trials=shown))
    return {table: len(of_table) for table, of_table in rows.items() if table in COLUMNS}


def without_folders(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as JSON values with the last two parts of every path."""
    data = {key: [*map(_last_parts, spec["data"][key] or ())] for key in SPLITS if key in spec["data"]}
    model = {"path": _last_parts(spec["model"]["path"])}
    return {**spec, "data": {**spec["data"], **data}, "model": {**spec["model"], **model}}


def _last_parts(path: str) -> str:
    return "/".join(Path(path).parts[-2:])

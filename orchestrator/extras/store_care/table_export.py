"""Export the tables of a store for other programs, each trial's newest attempt only; or a compact copy of the store."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import special

from orchestrator.analysis.rows import Floats, usable
from orchestrator.store.contents import COMMIT_ORDER, SweepPlan, planned_specs
from orchestrator.store.results import ResultStore
from orchestrator.store.schema import ADDED, COLUMNS, KEYS, SCHEMA_VERSION, UNOWNED
from trials.datasets.corpus import SPLITS
from trials.errors import RefusedError, StoreError
from trials.escaping import csv_cell, json_text

Row = dict[str, Any]
DICTIONARY = "columns.md"
ABOUT = {
    "epochs": "A row an evaluation on dev, of each trial's newest attempt.",
    "trials": "One row per trial that has ended, by its newest attempt. Only `completed` ones belong in a mean.",
    "tags": "One row per label of each scored split, with the weights of the best epoch.",
    "predictions": "One row per sentence or text of each scored split, with the weights of the best epoch.",
    "contributions": "A row a scored split, with the weights of the best epoch: the score, sentence by sentence.",
    "probes": "A row a linear probe of the untouched encoder (`permafrost layers`): one train subset, one depth.",
    "drifts": "A row a part of the encoder of a trial with stored weights: how far training moved it.",
    "losses": "One row a sweep and setting but the baselines; computed, not stored.",
}
LEAST_RUNS = 5  # of each side: a bootstrap of fewer says nothing
_DRAWS = 2_000
_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()
LOSS_COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "sweep": (_TEXT, "Its name."),
    "group": (_TEXT, "Task, score, corpus and train size; or why the sweep's plan cannot be read."),
    "model": (_TEXT, "What people call the pretrained model."),
    "freeze": (_TEXT, "What is frozen."),
    "setup": (_TEXT, "Other settings that vary in the sweep."),
    "n_pairs": (_COUNT, "Pairs with the baseline that the interval rests on."),
    "loss": (_NUMBER, "Mean loss against the baseline in units of the score, positive where the setting is worse."),
    "low": (_NUMBER, "Lower end of the interval that decides; empty where there is none."),
    "high": (_NUMBER, "Upper end."),
    "aso": (
        _NUMBER,
        "Almost stochastic order: 95 % bound of the violation ratio of the claim that the baseline scores higher, from "
        f"scores of seeds on dev; below 0.5 it is almost dominant. Empty below {LEAST_RUNS} runs a side. It decides "
        "nothing.",
    ),
}


class Format(StrEnum):
    """The file format: `csv` for spreadsheets, `parquet` with all types, `jsonl` with one JSON object per line.

    In CSV a text that a spreadsheet would run as a formula gets an apostrophe before it; numbers do not.
    """

    CSV = "csv"
    PARQUET = "parquet"
    JSONL = "jsonl"


def export(store: ResultStore, folder: Path, form: Format) -> dict[str, int]:
    """Write every table and a description of the columns into a folder; the number of rows of each table.

    Raises:
        RefusedError: one of the files already exists.
        StoreError: the folder cannot be written.
    """
    tables: dict[str, Callable[[], pa.Table]] = {name: getattr(store, name) for name in COLUMNS}
    tables["losses"] = lambda: loss_rows(store)
    paths = {name: folder / f"{name}.{form}" for name in tables} | {DICTIONARY: folder / DICTIONARY}
    there = [path for path in paths.values() if path.exists()]
    if there:
        raise RefusedError(f"{there[0]}: already exists. Give another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        rows = {name: _export(read(), paths[name], form) for name, read in tables.items()}
        paths[DICTIONARY].write_text(dictionary(), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror or error}). Give another folder.") from error
    return rows


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
    rows: dict[str, list[Row]] = {table: getattr(store, table)().to_pylist() for table in COLUMNS}
    for row in rows["trials"]:
        row["spec"] = json_text(without_folders(json.loads(row["spec"])))
    ended = {row["trial_id"] for row in rows["trials"]}
    rows["commits"] = [{name: row[name] for name in KEYS["commits"]} for row in rows["trials"]]
    new = ResultStore(folder)
    for table in (*COMMIT_ORDER, *UNOWNED):
        rows[table] = [row for row in rows[table] if table in UNOWNED or row["trial_id"] in ended]
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


def _export(table: pa.Table, path: Path, form: Format) -> int:
    """Write under a temporary name first, so that an incomplete file never looks complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    if form is Format.PARQUET:
        pq.write_table(table, temporary, compression="zstd")
    else:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            (_write_csv if form is Format.CSV else _write_jsonl)(table, file)
    temporary.replace(path)
    return len(table)


def _write_csv(table: pa.Table, file: TextIO) -> None:
    maps = {field.name: _keys(table[field.name]) for field in table.schema if pa.types.is_map(field.type)}
    heads = [[f"{name}.{key}" for key in maps[name]] if name in maps else [name] for name in table.column_names]
    writer = csv.writer(file)
    writer.writerow([csv_cell(head) for of_one in heads for head in of_one])
    for row in _rows(table):
        cells: list[object] = []
        for name, value in row.items():
            cells += [(value or {}).get(key) for key in maps[name]] if name in maps else [value]
        writer.writerow(map(_cell, cells))


def _keys(column: pa.ChunkedArray) -> list[str]:
    """All keys that occur in a column of maps."""
    return sorted({key for chunk in column.chunks if len(chunk) for key in pc.unique(chunk.keys).to_pylist()})


def _cell(value: object) -> object:
    if isinstance(value, list):
        return json_text(_plain(value))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else csv_cell(_plain(value))


def _write_jsonl(table: pa.Table, file: TextIO) -> None:
    file.writelines(json_text(_plain(row)) + "\n" for row in _rows(table))


def _plain(value: Any) -> Any:
    """As JSON can represent it: no NaN, times in ISO 8601."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from batch.to_pylist(maps_as_pydicts="lossy")


def dictionary() -> str:
    """The data dictionary, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Columns\n\nOf store version {SCHEMA_VERSION}. `_s` are seconds, `_bytes` bytes, `_j` joules. In CSV a"
    yield "list is JSON; a map has one column per key (best_metrics.accuracy); what is not there is an empty cell.\n"
    for table, stored in {**COLUMNS, "losses": LOSS_COLUMNS}.items():
        columns = stored | (ADDED if table == "trials" else {})
        yield f"## {table}\n\n{ABOUT[table]}\n\n| column | type | what |\n|---|---|---|"
        for name, (kind, about) in columns.items():
            yield f"| `{name}` | {_type(kind)} | {about} |"
        yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return f"{kind.key_type} to {kind.item_type}" if pa.types.is_map(kind) else str(kind).replace("[us, tz=UTC]", "")


# The table `losses`: of each sweep and setting the loss that decides, and the almost stochastic order.


def loss_rows(store: ResultStore) -> pa.Table:
    """The table, with the columns `LOSS_COLUMNS`."""
    rows = [row for plan in store.sweeps() for row in _of_sweep(store, plan)]
    return pa.Table.from_pylist(rows, schema=pa.schema({name: kind for name, (kind, _) in LOSS_COLUMNS.items()}))


def _of_sweep(store: ResultStore, plan: SweepPlan) -> Iterator[dict[str, Any]]:
    from orchestrator.analysis.decide import loss_table  # loads pandas

    try:
        frame = store.evidence(planned_specs(plan)).frame
    except StoreError as error:  # a plan that this version cannot read keeps nobody from the other tables
        yield {"sweep": plan.name, "group": str(error)}
        return
    if frame.empty:
        return
    scores = {cell: of["score"].to_numpy(np.float64) for cell, of in usable(frame, "score").groupby("cell")}
    first = frame.drop_duplicates("cell").set_index("cell")
    for row in loss_table(frame, plan=plan.asks).to_dict("records"):
        sides = [scores.get(row[side], np.empty(0)) for side in ("baseline", "cell")]
        names = {name: first[name][row["cell"]] for name in ("model", "freeze", "setup")}
        figures = {"loss": row["loss"], "low": row["low"], "high": row["high"], "aso": almost_dominates(*sides)}
        finite = {name: float(value) if np.isfinite(value) else None for name, value in figures.items()}
        yield {"sweep": plan.name, "group": row["group"], **names, "n_pairs": int(row["n_pairs"]), **finite}


def violation_ratio(better: Floats, worse: Floats) -> Floats:
    """The violation ratio of samples (..., n) and (..., m); 0.5 where all quantiles are equal.

    A dominates B stochastically if every quantile of A is at least B's. The ratio is the share of the squared
    Wasserstein distance of the two that comes from quantiles where A's is the lower one: 0 if A dominates, 1 if B
    does. An upper bound below 0.5 is called "almost stochastically dominant" (E. del Barrio, J. Cuesta-Albertos and
    C. Matran, "An Optimal Transportation Approach for Assessing Almost Stochastic Order", in "The Mathematics of the
    Uncertain" (2018), 33-44; R. Dror, S. Shlomov and R. Reichart, "Deep Dominance: How to Properly Compare Deep
    Neural Models", ACL 2019, 2773-2785). Scores are not paired by seed, and the sentences of the dev set are taken as
    given: with few seeds it says less than the interval of the loss, and other things.
    """
    n, m = better.shape[-1], worse.shape[-1]
    edges = np.union1d(np.arange(n + 1) / n, np.arange(m + 1) / m)
    middle = (edges[1:] + edges[:-1]) / 2  # quantiles are constant between two edges
    ours, theirs = (np.sort(x)[..., (middle * x.shape[-1]).astype(np.intp)] for x in (better, worse))
    squares = (ours - theirs) ** 2 * np.diff(edges)
    total = squares.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Floats = np.where(total > 0, np.where(ours < theirs, squares, 0.0).sum(axis=-1) / total, 0.5)
    return ratio


def almost_dominates(better: Floats, worse: Floats, level: float = 0.95, seed: int = 0) -> float:
    """Upper bound of the violation ratio of scores (n,) and (m,): below 0.5, `better` almost dominates.

    The bound is normal, with the standard deviation of a bootstrap of both samples. NaN with fewer than `LEAST_RUNS`.
    """
    if min(len(better), len(worse)) < LEAST_RUNS:
        return float("nan")
    rng = np.random.default_rng(seed)
    drawn = violation_ratio(*(rng.choice(x, (_DRAWS, len(x))) for x in (better, worse)))
    ratio = float(violation_ratio(better, worse))
    return float(np.clip(ratio + special.ndtri(level) * drawn.std(), 0, 1))

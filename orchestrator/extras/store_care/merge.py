"""Merge one store into another: every attempt that is missing there, and the plans of sweeps.

Attempts in two stores may have the same number, but within one trial numbers must be unique. So an attempt is
identified by its rows of `epochs` and `trials`, which contain times in microseconds. Therefore an attempt that was
merged before is recognised under its new number, a merge that was killed is completed, and merging again adds nothing.

New numbers count up from the largest one of the trial. If the trial is already complete here, its completed attempt
remains the newest: unfinished attempts of the other store get the numbers 0, -1, and so on, and a completed one is not
copied.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from orchestrator.extras.store_care.loss_export import ABOUT_LOSSES, LOSS_COLUMNS, loss_rows
from orchestrator.extras.store_care.report import Pair
from orchestrator.storage.storage import Storage
from orchestrator.store.contents import (
    COMMIT_ORDER,
    COMPUTED,
    WEIGHTS,
    TableContents,
    is_plan,
    latest,
    read_contents,
    weights_of,
)
from orchestrator.store.decisions import join_decisions, recorded
from orchestrator.store.parts import PartFolder
from orchestrator.store.results import MARKER, ResultStore, mark
from orchestrator.store.schema import (
    ADDED,
    ALL_TABLES,
    COLUMNS,
    KEYS,
    SCHEMA_VERSION,
    UNOWNED,
    WRONG_DIGEST,
    State,
    is_intact,
    proven_reads,
    unusable,
)
from trials.datasets.corpus import SPLITS
from trials.errors import RefusedError, StoreError
from trials.escaping import csv_cell, json_text

# Export the tables of a store for other programs, without duplicates and with each trial's newest attempt only.

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
    tables: dict[str, Callable[[], pa.Table]] = {
        "trials": store.trials, "epochs": store.epochs, "tags": store.tags, "predictions": store.predictions,
        "contributions": store.contributions, "probes": store.probes,
        "drifts": store.drifts, "losses": lambda: loss_rows(store),
    }  # fmt: skip
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
    trials = [row | {"spec": json_text(without_folders(json.loads(row["spec"])))} for row in store.trials().to_pylist()]
    ended = {row["trial_id"] for row in trials}
    rows: dict[str, list[Row]] = {
        "epochs": store.epochs().to_pylist(), "tags": store.tags().to_pylist(),
        "predictions": store.predictions().to_pylist(), "contributions": store.contributions().to_pylist(),
        "trials": trials, "probes": store.probes().to_pylist(), "drifts": store.drifts().to_pylist(),
        "commits": [{name: row[name] for name in KEYS["commits"]} for row in trials],
    }  # fmt: skip
    new = ResultStore(folder)
    for table in (*COMMIT_ORDER, *UNOWNED):
        rows[table] = [row for row in rows[table] if table in UNOWNED or row["trial_id"] in ended]
        if rows[table]:
            new.append(table, rows[table])
    for plan in store.sweeps():
        shown = tuple((trial_id, without_folders(spec)) for trial_id, spec in plan.trials)
        new.add_plan(replace(plan, source=_last_parts(plan.source), trials=shown))
    return {table: len(found) for table, found in rows.items() if table in COLUMNS}


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
            cells += [dict(value or ()).get(key) for key in maps[name]] if name in maps else [value]
        writer.writerow([_cell(value) for value in cells])


def _keys(column: pa.ChunkedArray) -> list[str]:
    """All keys that occur in a column of maps."""
    keys: set[str] = set()
    for chunk in column.chunks:
        keys |= set(pc.unique(chunk.keys).to_pylist()) if len(chunk) else set()
    return sorted(keys)


def _cell(value: object) -> object:
    if isinstance(value, list):
        return json_text(_plain(value))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else csv_cell(_plain(value))


def _write_jsonl(table: pa.Table, file: TextIO) -> None:
    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    for row in _rows(table):
        plain = {
            name: _plain(dict(value) if name in maps and value is not None else value) for name, value in row.items()
        }
        file.write(json_text(plain) + "\n")


def _plain(value: Any) -> Any:
    """As JSON can represent it: no NaN, times in ISO 8601."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from batch.to_pylist()


def dictionary() -> str:
    """The data dictionary, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Columns\n\nOf store version {SCHEMA_VERSION}. `_s` are seconds, `_bytes` bytes, `_j` joules. In CSV a"
    yield "list is JSON; a map has a column a key (`best_metrics.accuracy`), and what is not there is an empty cell.\n"
    for table, stored in {**COLUMNS, "losses": LOSS_COLUMNS}.items():
        columns = stored | (ADDED if table == "trials" else {})
        yield f"## {table}\n\n{ABOUT.get(table, ABOUT_LOSSES)}\n\n| column | type | what |\n|---|---|---|"
        for name, (kind, about) in columns.items():
            yield f"| `{name}` | {_type(kind)} | {about} |"
        yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return f"{kind.key_type} to {kind.item_type}" if pa.types.is_map(kind) else str(kind).replace("[us, tz=UTC]", "")


Does = dict[int, frozenset[bytes]]  # of one trial: the digests of each attempt's rows


@dataclass
class Merged:
    """The result of a merge.

    Attributes:
        rows: The number of rows added, by table.
        kept: Trials that each store had completed by itself; the source's attempt was not copied.
        differing: Those of them whose computed numbers differ, each with the first difference.
    """

    rows: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    plans: int = 0
    kept: list[str] = field(default_factory=list)
    differing: dict[str, str] = field(default_factory=dict)


def merge(source: ResultStore, target: ResultStore) -> Merged:
    """Add the contents of `source` to `target`; a merge that was killed can be repeated.

    Raises:
        StoreError: a store has unreadable parts, or `target` cannot be written.
    """
    theirs, ours = _tables(source.storage), _tables(target.storage)
    our_trials, their_done, our_done = _trials(ours), _completed(theirs), _completed(ours)
    numbers, kept = dict[Pair, int](), dict[Pair, int]()
    for i, does in sorted(_trials(theirs).items()):
        given, left_out = _numbers(does, our_trials.get(i, {}), their_done.get(i, set()), our_done.get(i, set()))
        numbers |= {(i, attempt): number for attempt, number in given.items()}
        kept |= {(i, attempt): number for attempt, number in left_out.items()}
    done = Merged(kept=sorted({trial_id for trial_id, _ in kept}), differing=_differing(theirs, ours, kept))
    _add_weights(source.storage, target.storage, their_done.keys() - our_done.keys())  # before the rows that count
    touched: set[Pair] = set()
    for name in COMMIT_ORDER:
        rows = _lacking(theirs[name], ours[name], KEYS[name], numbers)
        if len(rows) and not target.storage.exists(MARKER):
            mark(target.storage)
        PartFolder(target.storage.at(name), ALL_TABLES[name]).append_table(rows)
        done.rows[name] = len(rows)
        touched |= set(_pairs(rows))
    for name in UNOWNED:
        rows = _missing(theirs[name], ours[name], KEYS[name])
        if len(rows):
            target.append(name, rows.to_pylist())
        done.rows[name] = len(rows)
    done.attempts, done.plans = len(touched), _add_plans(source.storage, target.storage)
    return done


def _tables(storage: Storage) -> dict[str, pa.Table]:
    """All rows, one per key, as readers use them."""
    contents = read_contents(proven_reads(storage)).items()
    return {name: latest(_intact(storage, name, table), KEYS[name]) for name, table in contents}


def _intact(storage: Storage, name: str, table: TableContents) -> pa.Table:
    for part in table.broken:
        way_out = "Upgrade permafrost-sweeps." if part.newer else "Run `permafrost store repair` on it first."
        raise StoreError(f"{storage}/{name}/{part.name}: {part.wrong}. {way_out}")
    if wrong := unusable(table.rows):
        raise StoreError(f"{storage}/{name}: {wrong}. Run `permafrost store repair` on it first.")
    return table.rows


def _trials(tables: Mapping[str, pa.Table]) -> dict[str, Does]:
    """The digests of the rows of each attempt of each trial."""
    found: dict[str, dict[int, set[bytes]]] = {}
    for name in ("epochs", "trials"):
        rows = tables[name]
        for (trial_id, attempt), row in zip(_pairs(rows), rows.drop_columns(["attempt"]).to_pylist(), strict=True):
            did = hashlib.sha256(f"{name} {row!r}".encode()).digest()
            found.setdefault(trial_id, {}).setdefault(attempt, set()).add(did)
    return {i: {attempt: frozenset(did) for attempt, did in does.items()} for i, does in found.items()}


def _completed(tables: Mapping[str, pa.Table]) -> dict[str, set[int]]:
    """The completed attempts of each trial that has any."""
    found: dict[str, set[int]] = {}
    for (trial_id, attempt), state in zip(_pairs(tables["trials"]), tables["trials"]["state"].to_pylist(), strict=True):
        if state == State.COMPLETED:
            found.setdefault(trial_id, set()).add(attempt)
    return found


def _numbers(
    theirs: Does, ours: Does, their_completed: set[int], our_completed: set[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The new number of each attempt; and for each that is not copied, the number of our attempt in its stead."""
    given = _merged_before(theirs, ours)
    own = ours.keys() - set(given.values())
    complete = own & our_completed
    left_out = {a: max(complete) for a in theirs.keys() - given.keys() if complete and a in their_completed}
    # Depends only on our own attempts and their order, so that repeating a killed merge gives the same numbers.
    top, bottom, used = max(own, default=0), min({1, *own}), {*ours}
    for attempt in sorted(theirs.keys() - left_out.keys()):
        if attempt not in given:
            number = bottom - 1 if complete else max(attempt, top + 1)
            while number in used:
                number += -1 if complete else 1
            given[attempt] = number
            used.add(number)
        top, bottom = max(top, given[attempt]), min(bottom, given[attempt])
    return given, left_out


def _merged_before(theirs: Does, ours: Does) -> dict[int, int]:
    """The number here of each attempt whose rows equal, are part of, or extend those of one of ours."""
    given, left = dict[int, int](), dict(ours)
    for fits in (frozenset.__eq__, frozenset.__le__, frozenset.__gt__):  # the last: left by a killed merge
        for attempt in sorted(theirs.keys() - given.keys()):
            number = next((n for n in sorted(left) if fits(theirs[attempt], left[n])), None)
            if number is not None:
                given[attempt] = number
                del left[number]
    return given


def _lacking(theirs: pa.Table, ours: pa.Table, keys: Sequence[str], numbers: Mapping[Pair, int]) -> pa.Table:
    """Their rows that are missing here, under their new numbers, in the order of the keys."""
    theirs = theirs.sort_by([(name, "ascending") for name in keys])
    new = [numbers.get(pair) for pair in _pairs(theirs)]
    at, field_ = theirs.schema.get_field_index("attempt"), theirs.schema.field("attempt")
    taken = theirs.set_column(at, field_, [pa.array(new, field_.type)])
    taken = taken.filter(pa.array([number is not None for number in new], pa.bool_()))
    return _missing(taken, ours, keys)


def _missing(theirs: pa.Table, ours: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Their rows whose keys are not here."""
    there, all_keys = (list(zip(*(rows[key].to_pylist() for key in keys), strict=True)) for rows in (ours, theirs))
    known = set(there)
    return theirs.filter(pa.array([key not in known for key in all_keys], pa.bool_()))


def _differing(
    theirs: Mapping[str, pa.Table], ours: Mapping[str, pa.Table], kept: Mapping[Pair, int]
) -> dict[str, str]:
    """The first number of each trial that differs between their attempt and ours."""
    found: dict[str, str] = {}
    ours_of = {(trial_id, number) for (trial_id, _), number in kept.items()}
    for name in ("trials", "epochs"):
        keys = [key for key in KEYS[name] if key not in ("trial_id", "attempt")]
        mine = {(*_pair(row), *(row[key] for key in keys)): row for row in _rows_of(ours[name], ours_of)}
        for row in _rows_of(theirs[name], set(kept)):
            key = (row["trial_id"], kept[_pair(row)], *(row[key] for key in keys))
            other = mine.get(key)
            columns = [c for c in COMPUTED[name] if other is None or repr(other[c]) != repr(row[c])]
            if columns:
                where = "".join(f" at {key} {row[key]}" for key in keys)
                value = "nothing" if other is None else repr(other[columns[0]])
                found.setdefault(
                    _pair(row)[0], f"{columns[0]}{where}: {value} was kept, {row[columns[0]]!r} was not copied"
                )
    return found


def _rows_of(rows: pa.Table, pairs: set[Pair]) -> list[dict[str, object]]:
    wanted = [pair in pairs for pair in _pairs(rows)]
    found: list[dict[str, object]] = rows.filter(pa.array(wanted, pa.bool_())).to_pylist()
    return found


def _pair(row: Mapping[str, object]) -> Pair:
    return str(row["trial_id"]), int(str(row["attempt"]))


def _pairs(rows: pa.Table) -> list[Pair]:
    return list(zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True))


def _add_weights(source: Storage, target: Storage, trial_ids: set[str]) -> None:
    """Copy the weights of trials that complete by this merge; of others the target's own attempt counts."""
    there = target.at(WEIGHTS).files()
    for trial_id, names in weights_of(source).items():
        for name in names:
            if trial_id in trial_ids and name not in there:
                if not target.exists(MARKER):
                    mark(target)
                _copy(source.at(WEIGHTS), target.at(WEIGHTS), name)


def _copy(source: Storage, target: Storage, name: str) -> None:
    """Copy an object. Raises StoreError: it is not what the digest in its name says; it may be a link to anything."""
    content = proven_reads(source).read(name)
    if not is_intact(name, content):
        raise StoreError(f"{source}/{name}: {WRONG_DIGEST}. Run `permafrost store repair` on that store first.")
    target.write(name, content)


def _add_plans(source: Storage, target: Storage) -> int:
    """Copy the plans that are missing, whose names contain time and digest, and the decisions."""
    n = 0
    for sweep in source.at("sweeps").folders():
        theirs, ours = source.at("sweeps").at(sweep), target.at("sweeps").at(sweep)
        there = ours.files()
        for name in theirs.files():
            if name not in there and is_plan(name):
                if not target.exists(MARKER):
                    mark(target)
                _copy(theirs, ours, name)
                n += 1
        if decided := recorded(theirs):
            join_decisions(ours, alone=True, others=decided)
    return n

"""The rows of a store's tables in an in-memory DuckDB; each part is read once.

A row of `epochs` or `tags` begins with the number of its trial, `t`, instead of the 16 characters of its id.

Tables are compressed by row groups: a million evaluations take 47 MB instead of 202 at the same query time, and the
peak memory while they are read is a third lower.

Losses of steps, predictions and contributions are too large to mirror: of these, rows of a few trials are read. A part
is read as a whole, because its digest covers all of it; in memory stay the ids of its trials and the rows of the trials
that were requested, so a part without requested trials is not read again.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from contextlib import suppress

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboards.data.followed import FollowedTable, TrialNumbers
from orchestrator.store import ResultStore
from orchestrator.store.contents import BrokenPart, latest, read_part
from orchestrator.store.follower import Changes
from orchestrator.store.parts import PartFolder
from orchestrator.store.schema import KEYS, METRICS, TABLES

COLUMNS = {
    "epochs": (
        "trial_id", "attempt", "step", "epoch", "train_loss", "dev_loss", "score", *METRICS, "lr", "train_s", "eval_s",
        "time",
    ),
    "tags": (
        "trial_id", "attempt", "split", "level", "tag", "support", "predicted", "correct", "precision", "recall", "f1",
    ),
}  # fmt: skip
ROW_GROUP = 122_880  # rows that DuckDB compresses together
_KEPT = "kept"
_TYPES = {pa.int32(): "INTEGER", pa.int64(): "INTEGER", pa.float64(): "DOUBLE", pa.string(): "VARCHAR"}


class Mirror(FollowedTable):
    """A mirror of one table of a store.

    Attributes:
        n_rows: Number of rows, older attempts included.
    """

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        store: ResultStore,
        table: str,
        numbers: TrialNumbers,
        *,
        row_group: int = ROW_GROUP,
    ) -> None:
        super().__init__(store, table, COLUMNS[table])
        self._database, self._numbers, self._row_group = database, numbers, row_group
        self._keys = ["t" if key == "trial_id" else key for key in KEYS[table]]
        self._create()

    def refresh(self) -> bool:
        """As of every table; then frees the memory of the parts, which Arrow's pool would keep."""
        has_news = super().refresh()
        if has_news:
            pa.default_memory_pool().release_unused()
        return has_news

    def take(self, news: Changes) -> None:
        """Add rows to the mirror."""
        if news.reset:
            self._create()
        if news.rows:
            self._insert(pa.concat_tables(news.rows), several=len(news.rows) > 1)

    def _create(self) -> None:
        types = {field.name: _TYPES.get(field.type, "TIMESTAMPTZ") for field in TABLES[self._table]}
        columns = ", ".join(["t INTEGER", *(f"{name} {types[name]}" for name in COLUMNS[self._table][1:])])
        with cursor_of(self._database) as cursor:
            cursor.execute(f"CREATE OR REPLACE TABLE {self._table} ({columns})")
        self.n_rows = 0

    def _insert(self, rows: pa.Table, *, several: bool) -> None:
        names, keys = ", ".join(COLUMNS[self._table][1:]), ", ".join(self._keys)
        numbered = rows.drop_columns("trial_id").add_column(0, "t", pa.array(self._numbers.of(rows["trial_id"])))
        once = f"DISTINCT ON ({keys})" if several else ""  # a killed compaction leaves rows in two parts
        anti_join = f"ANTI JOIN {self._table} USING ({keys})" if self.n_rows else ""
        at_once = len(rows) if several else self._row_group
        cursor = cursor_of(self._database)
        for start in range(0, len(rows), max(at_once, 1)):
            cursor.register("new_rows", numbered.slice(start, at_once))
            cursor.execute(f"INSERT INTO {self._table} SELECT {once} t, {names} FROM new_rows {anti_join}")  # noqa: S608
            if len(rows) >= self._row_group:
                with suppress(duckdb.TransactionException):  # a query is running; the next large part compresses this
                    cursor.execute(f"CHECKPOINT {_KEPT}")
        counted = cursor.execute(f"SELECT count(*) FROM {self._table}").fetchall()  # noqa: S608  # names of our own
        self.n_rows = int(counted[0][0])
        cursor.close()


class Database:
    """Answers queries from any thread."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._lock = threading.Lock()

    def ask(
        self, sql: str, *, chosen: pd.DataFrame | None = None, values: Mapping[str, object] | None = None
    ) -> pd.DataFrame:
        """The result of a query as a frame; it can use the frame `chosen` under this name."""
        with self._lock:
            cursor = cursor_of(self._database)
        try:
            if chosen is not None:
                cursor.register("chosen", chosen)
            return cursor.sql(sql, params=dict(values) if values else None).to_arrow_table().to_pandas()
        finally:
            cursor.close()


def open_database() -> duckdb.DuckDBPyConnection:
    """An empty in-memory database that reads no files and loads no extensions; use it through `cursor_of`."""
    database = duckdb.connect(
        ":memory:", config={"threads": 2, "enable_external_access": "false", "autoinstall_known_extensions": "false"}
    )
    database.execute(f"ATTACH ':memory:' AS {_KEPT} (COMPRESS)")  # the initial database cannot be compressed
    return database


def cursor_of(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A cursor on the tables, for one thread."""
    cursor = database.cursor()
    cursor.execute(f"USE {_KEPT}")
    return cursor


SEEDS = 3  # the lowest of each cell, whose losses of steps figures show and memory holds
FEW_COLUMNS = {
    "epochs": ("trial_id", "attempt", "step", "step_losses"),
    "predictions": ("trial_id", "attempt", "split", "sentence", "gold", "predicted"),
    "contributions": TABLES["contributions"].names,
}
_MOST = {"predictions": 40}  # trials in memory


class TrialRows:
    """One table of a store, read for a few trials at a time, from any thread."""

    def __init__(self, store: ResultStore, table: str, *, most: int | None = None) -> None:
        self._parts = PartFolder(store.storage.at(table), TABLES[table])
        self._columns, self._keys = list(FEW_COLUMNS[table]), KEYS[table]
        self._most = _MOST.get(table) if most is None else most
        self._empty = pa.schema([TABLES[table].field(name) for name in self._columns]).empty_table()
        self._lock = threading.Lock()
        self._holds: dict[str, frozenset[str]] = {}
        self._rows: dict[str, pa.Table] = {}
        self._loaded: set[str] = set()

    def of(self, trials: pd.DataFrame, prefetch: Collection[str] = ()) -> pa.Table:
        """Rows of some trials, in no order. Raises StoreError.

        Args:
            trials: `trial_id` and `attempt`, the one that counts.
            prefetch: Trials that are likely to be requested next; they cost little, as parts are read as a whole.
        """
        attempts = dict(zip(trials["trial_id"], trials["attempt"].astype(int), strict=True))
        with self._lock:
            if self._most is not None and len(self._loaded) > self._most:
                self._loaded, self._rows = set(), {}
            self._read_parts(set(attempts), set(prefetch))
            return self._found(attempts)

    def _read_parts(self, wanted: set[str], prefetch: set[str]) -> None:
        missing = (wanted | prefetch) - self._loaded if wanted - self._loaded else set[str]()
        loaded = self._loaded | missing

        def read(name: str) -> pa.Table | BrokenPart | None:
            is_known = name in self._holds and not self._holds[name] & missing
            return None if is_known else read_part(self._parts, name, self._columns)

        names, parts = self._parts.read_each(read)
        for gone in self._holds.keys() - names.keys():
            del self._holds[gone]
            self._rows.pop(gone, None)
        for name, part in parts.items():
            if part is not None:
                rows = self._empty if isinstance(part, BrokenPart) else part  # the snapshot reports broken parts
                self._holds[name] = frozenset(rows["trial_id"].unique().to_pylist())
                self._rows[name] = rows.filter(pc.is_in(rows["trial_id"], pa.array(sorted(loaded), pa.string())))
        self._loaded = loaded

    def _found(self, attempts: Mapping[str, int]) -> pa.Table:
        rows = pa.concat_tables([self._empty, *(t.replace_schema_metadata(None) for t in self._rows.values())])
        chosen = rows.filter(pc.is_in(rows["trial_id"], pa.array(sorted(attempts), pa.string())))
        pairs = zip(chosen["trial_id"].to_pylist(), chosen["attempt"].to_pylist(), strict=True)
        right = pa.array([attempts[trial_id] == attempt for trial_id, attempt in pairs], pa.bool_())
        return latest(chosen.filter(right), self._keys)


def lowest_seeds(trials: pd.DataFrame) -> pd.DataFrame:
    """The rows of each cell's `SEEDS` lowest seeds."""
    order = trials.sort_values("seed", kind="stable")
    return order[order.groupby("cell").cumcount() < SEEDS].sort_index()


def by_step(rows: pa.Table) -> pd.DataFrame:
    """One row per step. A row of `epochs` holds the losses of the steps up to and including `step`."""
    rows = rows.filter(pc.is_valid(rows["step_losses"])).sort_by([("trial_id", "ascending"), ("step", "ascending")])
    lengths = pc.list_value_length(rows["step_losses"]).to_numpy().astype(np.int64)
    last = rows["step"].to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    within = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
    return pd.DataFrame(
        {
            "trial_id": np.repeat(rows["trial_id"].to_numpy(zero_copy_only=False), lengths),
            "step": np.repeat(last - lengths + 1, lengths) + within,
            "loss": pc.list_flatten(rows["step_losses"]).to_numpy().astype(np.float64),
        }
    )

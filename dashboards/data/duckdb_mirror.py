"""The rows of a store's tables in an in-memory DuckDB; each part is read once.

A row of `epochs` or `tags` begins with the number of its trial, `t`, instead of the 16 characters of its id.

Tables are compressed by row groups: a million evaluations take 47 MB instead of 202 at the same query time, and the
peak memory while they are read is a third lower.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

import duckdb
import pandas as pd
import pyarrow as pa

from dashboards.data.followed import FollowedTable, TrialNumbers
from orchestrator.store import ResultStore
from orchestrator.store.results import Changes
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
        known = f"ANTI JOIN {self._table} USING ({keys})" if self.n_rows else ""
        at_once = len(rows) if several else self._row_group
        cursor = cursor_of(self._database)
        for start in range(0, len(rows), max(at_once, 1)):
            cursor.register("new_rows", numbered.slice(start, at_once))
            cursor.execute(f"INSERT INTO {self._table} SELECT {once} t, {names} FROM new_rows {known}")  # noqa: S608
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

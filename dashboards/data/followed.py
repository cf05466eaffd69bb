"""What the dashboards follow of a store: ended trials, plans, and other tables, of each only what is new.

Many trials differ in their seeds alone, and parsing a spec takes longer than anything else in a large store, so each
spec is parsed once for all seeds.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.analysis.cells import MEASURED, cell_columns, setup_labels
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.trial_frame import CONDITIONS
from orchestrator.store import ResultStore
from orchestrator.store.contents import SweepPlan, stored_spec
from orchestrator.store.decisions import newest_plan
from orchestrator.store.results import Changes, Follower
from orchestrator.store.schema import KEYS, TABLES
from trials.errors import StoreError
from trials.seeds import Seeds
from trials.spec import TrialSpec

_SEEDS = re.compile(r'"((?:init_|order_)?seed)":\s*(\d+|null)')
_TEXTS = ("device", "step_mode")
_NUMBERS = (
    *MEASURED,
    "best_epoch",
    "last_epoch",
    "prefix_layers",
    *(name for name in CONDITIONS if name not in _TEXTS),
)
_ENDED = ("trial_id", "attempt", "state", *_NUMBERS, *_TEXTS, "git_commit", "error", "time")
_MAPS = {"dev": "best_metrics", "test": "test_metrics"}
NUMBERS = tuple("score" if name == "best_score" else name for name in _NUMBERS)  # as a frame of trials calls them


class TrialNumbers:
    """An integer for each trial id, in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, ids: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """(n,) integers of a column of trial ids."""
        encoded = ids.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        numbers = np.array([self.number(name) for name in encoded.dictionary.to_pylist()], dtype=np.int32)
        return numbers[encoded.indices.to_numpy(zero_copy_only=False)] if len(numbers) else numbers

    def number(self, trial_id: str) -> int:
        """The integer of one trial id."""
        return self._numbers.setdefault(trial_id, len(self._numbers))


class SpecReader:
    """Reads the specs of trials, once for all seeds of a cell.

    Attributes:
        by_cell: One spec of each cell that was read, by cell id.
        unreadable: Why the spec of a trial cannot be read, by trial id.
    """

    def __init__(self) -> None:
        self.by_cell: dict[str, TrialSpec] = {}
        self.unreadable: dict[str, str] = {}
        self._cell_of_text: dict[str, str] = {}
        self._columns: dict[str, dict[str, object]] = {}

    def read(self, trial_id: str, text: str) -> tuple[str, int] | None:
        """Cell id and key of the seeds of a trial, from its spec as JSON; None if that cannot be read."""
        values = {name: None if value == "null" else int(value) for name, value in _SEEDS.findall(text)}
        seed = values.get("seed")
        seeds = None if seed is None else Seeds.of(seed, values.get("init_seed"), values.get("order_seed"))
        stripped = _SEEDS.sub("", text)
        if seeds is not None and stripped in self._cell_of_text:
            return self._cell_of_text[stripped], seeds.key
        try:
            spec = stored_spec(text, trial_id)
        except StoreError as error:
            self.unreadable[trial_id] = str(error)
            return None
        cell = spec.cell_id
        self.by_cell.setdefault(cell, spec)
        if seeds == spec.seeds:  # else one was another field of that name
            self._cell_of_text[stripped] = cell
        return cell, spec.seeds.key

    def columns(self, cells: Iterable[str]) -> list[dict[str, object]]:
        """The columns that describe each cell in a frame of trials."""
        specs = {cell: self.by_cell[cell] for cell in cells}
        setups = setup_labels(specs)
        for cell, spec in specs.items():
            if cell not in self._columns:
                self._columns[cell] = cell_columns(spec)
        return [self._columns[cell] | {"setup": setups[cell]} for cell in specs]


class FollowedTable(ABC):
    """A table of which each part is read once.

    Attributes:
        problems: What cannot be read, and what to do about it.
    """

    def __init__(self, store: ResultStore, table: str, columns: Sequence[str]) -> None:
        self.problems: list[str] = []
        self._table, self._follower = table, Follower(store.storage, table, columns)

    def refresh(self) -> bool:
        """Read new parts, and return whether there were any."""
        if not self._follower.changed():
            return False
        news = self._follower.poll()
        way_out = {True: "Upgrade permafrost-sweeps.", False: "Its rows are not shown; run `permafrost store repair`."}
        self.problems = [f"{self._table}/{part.name}: {part.wrong}. {way_out[part.newer]}" for part in news.broken]
        self.take(news)
        return True

    @abstractmethod
    def take(self, news: Changes) -> None:
        """Use new rows."""


class UnownedRows(FollowedTable):
    """A table whose rows belong to no attempt."""

    def __init__(self, store: ResultStore, table: str) -> None:
        super().__init__(store, table, TABLES[table].names)
        self._keys, self._empty = list(KEYS[table]), TABLES[table].empty_table()
        self._rows = self._empty

    def take(self, news: Changes) -> None:
        """Keep all; a killed compaction leaves rows twice."""
        new = [rows.replace_schema_metadata(None) for rows in news.rows]
        self._rows = pa.concat_tables([self._empty if news.reset else self._rows, *new])

    def frame(self) -> pd.DataFrame:
        """One row per key."""
        return self._rows.to_pandas().drop_duplicates(self._keys, keep="last", ignore_index=True)


class EndedTrials(FollowedTable):
    """The rows of trials that have ended and whose specs can be read."""

    def __init__(self, store: ResultStore, specs: SpecReader, numbers: TrialNumbers) -> None:
        super().__init__(store, "trials", [*_ENDED, *_MAPS.values(), "spec"])
        self._specs, self._numbers = specs, numbers
        self._rows: list[pd.DataFrame] = []

    def take(self, news: Changes) -> None:
        """Keep the columns that are shown."""
        new = [self._tidied(rows) for rows in news.rows]
        self._rows = new if news.reset else [*self._rows, *new]
        if len(self._rows) > 50:
            self._rows = [pd.concat(self._rows, ignore_index=True)]

    def _tidied(self, rows: pa.Table) -> pd.DataFrame:
        specs = zip(rows["trial_id"].to_pylist(), rows["spec"].to_pylist(), strict=True)
        read = [self._specs.read(trial_id, spec or "") for trial_id, spec in specs]
        metrics = {
            f"{split}:{name}": pc.map_lookup(rows[column], name, "first")
            for split, column in _MAPS.items()
            for name in rows[column].combine_chunks().keys.unique().to_pylist()  # those of plug-ins too
        }
        frame = rows.select([name for name in _ENDED if name in rows.column_names]).to_pandas()
        frame = frame.assign(**{k: v.to_pandas() for k, v in metrics.items() if v.null_count < len(v)})
        frame["t"] = self._numbers.of(rows["trial_id"])
        frame["cell"] = [pair[0] if pair else None for pair in read]
        frame["seed"] = [pair[1] if pair else -1 for pair in read]
        return frame[frame["cell"].notna()].rename(columns={"best_score": "score"})

    def newest(self) -> pd.DataFrame:
        """One row per trial, that of its newest attempt: `t`, `cell`, `seed`, `NUMBERS`, and others of the store."""
        if not self._rows:
            return pd.DataFrame({name: pd.Series(dtype=object) for name in ("t", "cell", "seed", "score", *_ENDED)})
        frame = pd.concat(self._rows, ignore_index=True)
        frame["time"] = frame["time"].fillna(pd.Timestamp(0, tz="UTC"))
        return frame.sort_values(["t", "attempt"], kind="stable").drop_duplicates("t", keep="last")


@dataclass(frozen=True)
class PlanFrame:
    """A plan and its trials with readable specs: `t`, `trial_id`, `cell`, `seed`."""

    name: str
    time: float
    source: str
    trials: pd.DataFrame
    asks: DecisionPlan


class FollowedPlans:
    """The newest plan of each sweep; a folder is read again only if its files changed.

    Attributes:
        newest: The newest sweep first.
    """

    def __init__(self, store: ResultStore, specs: SpecReader, numbers: TrialNumbers) -> None:
        self.newest: tuple[PlanFrame, ...] = ()
        self.problems: tuple[str, ...] = ()
        self._storage, self._specs, self._numbers = store.storage.at("sweeps"), specs, numbers
        self._read: dict[str, tuple[frozenset[str], PlanFrame | str | None]] = {}

    def refresh(self) -> bool:
        """Read changed plans, and return whether there were any."""
        listed = {name: frozenset(files) for name, files in self._storage.inside().items()}
        if listed == {name: files for name, (files, _) in self._read.items()}:
            return False
        self._read = {name: self._look(name, files) for name, files in listed.items()}
        outcomes = [plan for _, plan in self._read.values()]
        self.newest = tuple(sorted((p for p in outcomes if isinstance(p, PlanFrame)), key=lambda plan: -plan.time))
        self.problems = tuple(problem for problem in outcomes if isinstance(problem, str))
        return True

    def _look(self, name: str, files: frozenset[str]) -> tuple[frozenset[str], PlanFrame | str | None]:
        if name in self._read and self._read[name][0] == files:
            return self._read[name]
        try:
            plan = newest_plan(self._storage.at(name), files)
        except StoreError as error:
            return files, str(error)
        return files, None if plan is None else self._framed(plan)

    def _framed(self, plan: SweepPlan) -> PlanFrame:
        read = [(trial_id, self._specs.read(trial_id, json.dumps(spec))) for trial_id, spec in plan.trials]
        rows = [(self._numbers.number(i), i, *pair) for i, pair in read if pair]
        trials = pd.DataFrame(rows, columns=["t", "trial_id", "cell", "seed"]).drop_duplicates("t")
        return PlanFrame(plan.name, plan.time, plan.source, trials, plan.asks)

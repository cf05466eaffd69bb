"""The specs of a store's trials as columns: a trial's cell (its setting) and the settings by name.

Many trials differ in their seeds alone, and parsing a spec takes longer than anything else in a large store, so each
spec is parsed once for all seeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from dashboards.data.duckdb_mirror import TrialNumbers
from orchestrator.analysis.cells import cell_columns, setup_labels
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.store import ResultStore
from orchestrator.store.contents import BrokenPart, SweepPlan, stored_spec
from orchestrator.store.decisions import newest_plan
from orchestrator.store.results import Follower
from orchestrator.store.schema import KEYS, TABLES
from trials.errors import StoreError
from trials.settings import Seeds
from trials.spec import TrialSpec

_SEEDS = re.compile(r'"((?:init_|order_)?seed)":\s*(\d+|null)')


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


# What `Frames` follows of a store beside its trials and their evaluations: plans, and tables without attempts.


class FollowedTable:
    """A table whose rows belong to no attempt.

    Attributes:
        rows: All that were read; a killed compaction leaves rows twice.
    """

    def __init__(self, store: ResultStore, table: str) -> None:
        self.broken: tuple[BrokenPart, ...] = ()
        self._keys, self._empty = list(KEYS[table]), TABLES[table].empty_table()
        self._follower, self.rows = Follower(store.storage, table, TABLES[table].names), self._empty

    def refresh(self) -> bool:
        """Read new parts, and return whether there were any."""
        if not self._follower.changed():
            return False
        news = self._follower.poll()
        self.broken = news.broken
        new = [rows.replace_schema_metadata(None) for rows in news.rows]
        self.rows = pa.concat_tables([self._empty if news.reset else self.rows, *new])
        return True

    def frame(self) -> pd.DataFrame:
        """One row per key."""
        return self.rows.to_pandas().drop_duplicates(self._keys, keep="last", ignore_index=True)


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
        listed = {name: frozenset(self._storage.at(name).files()) for name in self._storage.folders()}
        if listed == {name: files for name, (files, _) in self._read.items()}:
            return False
        self._read = {name: self._look(name, files) for name, files in listed.items()}
        found = [plan for _, plan in self._read.values()]
        self.newest = tuple(sorted((p for p in found if isinstance(p, PlanFrame)), key=lambda plan: -plan.time))
        self.problems = tuple(problem for problem in found if isinstance(problem, str))
        return True

    def _look(self, name: str, files: frozenset[str]) -> tuple[frozenset[str], PlanFrame | str | None]:
        if name in self._read and self._read[name][0] == files:
            return self._read[name]
        try:
            plan = newest_plan(self._storage.at(name))
        except StoreError as error:
            return files, str(error)
        return files, None if plan is None else self._framed(plan)

    def _framed(self, plan: SweepPlan) -> PlanFrame:
        read = [(trial_id, self._specs.read(trial_id, json.dumps(spec))) for trial_id, spec in plan.trials]
        rows = [(self._numbers.number(i), i, *found) for i, found in read if found]
        trials = pd.DataFrame(rows, columns=["t", "trial_id", "cell", "seed"]).drop_duplicates("t")
        return PlanFrame(plan.name, plan.time, plan.source, trials, plan.asks)

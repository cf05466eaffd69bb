"""What `Frames` follows of a store beside its trials and their evaluations: plans, and tables without attempts."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from dashboards.data.duckdb_mirror import TrialNumbers
from dashboards.data.spec_columns import SpecReader
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.store import ResultStore
from orchestrator.store.contents import BrokenPart, SweepPlan
from orchestrator.store.decisions import newest_plan
from orchestrator.store.results import Follower
from orchestrator.store.schema import KEYS, TABLES
from trials.errors import StoreError


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

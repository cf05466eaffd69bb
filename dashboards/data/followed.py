"""What the dashboards follow of a store: tables as frames, and plans, of each only what is new.

Parsing a spec takes longer than anything else in a large store, so one is parsed for all seeds of a setting: rows say
which setting they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.trial_frame import CONDITIONS, TEXTS
from orchestrator.store import ResultStore
from orchestrator.store.parts import Follower
from orchestrator.store.schema import KEYS, METRICS, TABLES
from orchestrator.store.stored_specs import stored_spec
from orchestrator.store.sweep_plans import SweepPlan, newest_plan
from trials.errors import StoreError
from trials.record import MEASURED
from trials.spec import TrialSpec

_NUMBERS = (
    *MEASURED,
    "best_epoch",
    "last_epoch",
    "prefix_layers",
    *(name for name in CONDITIONS if name not in TEXTS),
)
_ENDED = ("trial_id", "attempt", "state", *_NUMBERS, *TEXTS, "git_commit", "error", "time")
_MAPS = {"dev": "best_metrics", "test": "test_metrics"}
NUMBERS = tuple("score" if name == "best_score" else name for name in _NUMBERS)  # as a frame of trials calls them
# The columns of each table that the dashboards show.
SHOWN = {
    "trials": (*_ENDED, *_MAPS.values(), "spec", "cell_id", "seed_key"),
    "epochs": (
        "trial_id", "attempt", "step", "epoch", "train_loss", "dev_loss", "score", *METRICS, "lr", "train_s", "eval_s",
        "time",
    ),
    "tags": (
        "trial_id", "attempt", "split", "level", "tag", "support", "predicted", "correct", "precision", "recall", "f1",
    ),
}  # fmt: skip


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


class Settings:
    """The setting and the seeds of each trial, and one spec of each setting.

    Attributes:
        by_cell: The spec, by cell id.
        unreadable: Why the spec of a trial cannot be read, by trial id.
    """

    def __init__(self) -> None:
        self.by_cell: dict[str, TrialSpec] = {}
        self.unreadable: dict[str, str] = {}
        self._of_trial: dict[str, tuple[str, int]] = {}

    def of_rows(self, rows: pa.Table) -> list[tuple[str, int] | None]:
        """Cell id and key of the seeds of each row's trial; None if its spec cannot be read."""
        columns = (rows[name].to_pylist() for name in ("trial_id", "cell_id", "seed_key", "spec"))
        return [
            self._known(trial_id, cell, key) if cell in self.by_cell else self.of_spec(trial_id, spec or "")
            for trial_id, cell, key, spec in zip(*columns, strict=True)
        ]

    def of_spec(self, trial_id: str, content: str | Mapping[str, Any]) -> tuple[str, int] | None:
        """The same of a trial that has no row, from its spec in a plan."""
        if trial_id in self._of_trial:
            return self._of_trial[trial_id]
        try:
            spec = stored_spec(content, trial_id)
        except StoreError as error:
            self.unreadable[trial_id] = str(error)
            return None
        self.by_cell.setdefault(spec.cell_id, spec)
        return self._known(trial_id, spec.cell_id, spec.seeds.key)

    def _known(self, trial_id: str, cell: str, seed_key: int) -> tuple[str, int]:
        return self._of_trial.setdefault(trial_id, (cell, seed_key))


class FollowedTable:
    """A table as one frame, of which each part is read once. A trial is its number, `t`, not its id of 16 characters.

    Attributes:
        rows: One row per key of the table; a refresh replaces the frame and changes none that was handed out.
        problems: What cannot be read, and what to do about it.
    """

    def __init__(
        self,
        store: ResultStore,
        table: str,
        numbers: TrialNumbers,
        frame: Callable[[pa.Table], pd.DataFrame] = lambda rows: rows.drop_columns("trial_id").to_pandas(),
    ) -> None:
        columns = [name for name in TABLES[table].names if name in SHOWN[table]]
        self._table, self._follower = table, Follower(store.storage, table, columns)
        self._numbers, self._frame = numbers, frame
        self._keys = ["t" if key == "trial_id" else key for key in KEYS[table]]
        self.rows = self._numbered(pa.schema([TABLES[table].field(name) for name in columns]).empty_table())
        self.problems: list[str] = []

    def refresh(self) -> bool:
        """Read new parts, and return whether there were any."""
        if not self._follower.changed():
            return False
        news = self._follower.poll()
        way_out = {
            True: "Upgrade permafrost-sweeps.",
            False: "Not shown; the same launch runs its trials again.",
        }
        self.problems = [f"{self._table}/{part.name}: {part.wrong}. {way_out[part.newer]}" for part in news.broken]
        known = self.rows.iloc[:0] if news.reset else self.rows
        if news.rows:
            new = self._numbered(pa.concat_tables([rows.replace_schema_metadata(None) for rows in news.rows]))
            known = pd.concat([known, new], ignore_index=True) if len(known) else new
            known = known.drop_duplicates(self._keys, keep="last", ignore_index=True)  # of a killed compaction
        self.rows = known
        pa.default_memory_pool().release_unused()
        return True

    def _numbered(self, rows: pa.Table) -> pd.DataFrame:
        numbers = self._numbers.of(rows["trial_id"])
        empty = [name for name in METRICS if name in rows.column_names and rows[name].null_count == len(rows)]
        return self._frame(rows.drop_columns(empty)).assign(t=numbers)


def of_attempts(rows: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Those rows of a followed table that belong to some trials, of the attempts that count, in the table's order."""
    chosen = trials.loc[trials["t"] >= 0, ["t", "attempt"]].astype(np.int32)
    numbers = rows["t"].to_numpy()
    attempts = np.full(1 + max(numbers.max(initial=0), chosen["t"].max() if len(chosen) else 0), -1, dtype=np.int32)
    attempts[chosen["t"]] = chosen["attempt"]
    return rows[attempts[numbers] == rows["attempt"].to_numpy()]


def ended_trials(rows: pa.Table, settings: Settings) -> pd.DataFrame:
    """The columns that are shown of ended trials, with `cell` and `seed`: None where a spec cannot be read."""
    read = settings.of_rows(rows)
    metrics = {
        f"{split}:{name}": pc.map_lookup(rows[column], name, "first")
        for split, column in _MAPS.items()
        for name in rows[column].combine_chunks().keys.unique().to_pylist()  # those of plug-ins too
    }
    frame = rows.select([name for name in _ENDED if name in rows.column_names]).to_pandas()
    return frame.assign(
        **{name: values.to_pandas() for name, values in metrics.items() if values.null_count < len(values)},
        cell=[pair[0] if pair else None for pair in read],
        seed=[pair[1] if pair else -1 for pair in read],
    )


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

    def __init__(self, store: ResultStore, settings: Settings, numbers: TrialNumbers) -> None:
        self.newest: tuple[PlanFrame, ...] = ()
        self.problems: tuple[str, ...] = ()
        self._storage, self._settings, self._numbers = store.storage.at("sweeps"), settings, numbers
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
        read = [(trial_id, self._settings.of_spec(trial_id, spec)) for trial_id, spec in plan.trials]
        rows = [(self._numbers.number(i), i, *pair) for i, pair in read if pair]
        trials = pd.DataFrame(rows, columns=["t", "trial_id", "cell", "seed"]).drop_duplicates("t")
        return PlanFrame(plan.name, plan.time, plan.source, trials, plan.asks)

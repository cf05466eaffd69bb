"""A store as tidy frames that follow its changes: the only place where the dashboards read it.

    frames = Frames(open_store("results"))
    snapshot = frames.refresh()                       # reads new parts only; the same object if nothing is new
    trials = snapshot.sweeps["starter"].trials        # one row per trial, planned ones included
    epochs = snapshot.epochs(trials)                  # one row per evaluation

Columns of `trials`: those of `analysis.cells.cell_columns`, `corpus_key` (task and corpus), `trial_id`, `state`,
`setup`, `seed`, costs and scores (`followed.NUMBERS`), and `dev:NAME` and `test:NAME` for each metric. A trial without
a row is `running`, `planned`, or `missing` if no driver runs the sweep.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from dashboards.data.followed import (
    NUMBERS,
    FollowedPlans,
    FollowedTable,
    PlanFrame,
    Settings,
    TrialNumbers,
    ended_trials,
    of_attempts,
)
from dashboards.data.trial_rows import TrialRows
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.trial_frame import described
from orchestrator.claims.claims import RunningDriver, began_at, likely_shares, running_drivers
from orchestrator.store import ResultStore
from trials.settings import Seeds
from trials.spec import TrialSpec

EVERYTHING = "all trials"  # the sweep of a store whose trials no plan names; a real one cannot have a space in its name
_DRIVER_EVERY_S = 3.0


@dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep of the store.

    Attributes:
        trials: One row per trial, in the plan's order.
        started: Unix time of its newest plan.
        source: The YAML file that declared it.
        ray: Address of Ray's dashboard while the sweep runs; otherwise empty.
        running_since: Unix time at which its first driver started, by that one's clock; None if it is not running.
        last_row: Unix time of its newest row; None if there is none.
        likely: Shares of the work not begun that its drivers are likely to run (None: unknown), and that they may.
        drivers: A line about each driver that runs it, the oldest first.
        asks: What its answers go by.
    """

    name: str
    trials: pd.DataFrame
    started: float
    source: str
    ray: str
    running_since: float | None
    last_row: float | None = None
    drivers: tuple[str, ...] = ()
    likely: tuple[float | None, float] = (1.0, 1.0)
    asks: DecisionPlan = field(default_factory=DecisionPlan)

    @property
    def is_running(self) -> bool:
        """Whether a driver runs it."""
        return self.running_since is not None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The content of the store at one moment.

    Attributes:
        version: Differs between snapshots that differ in anything shown.
        sweeps: The newest first.
        specs: One spec of each cell, by cell id.
        problems: What cannot be read, and why.
        last_row: Unix time of the newest row; None if there is none.
        evaluations: All rows of the table of epochs, with the trial's number `t` in place of its id.
        label_scores: Returns those of the table of tags, and reads it when first called.
        store: The store itself.
        few: Readers of tables that are too large to be in memory, by name.
    """

    version: int
    address: str
    sweeps: Mapping[str, Sweep]
    specs: Mapping[str, TrialSpec]
    problems: tuple[str, ...]
    last_row: float | None
    evaluations: pd.DataFrame
    label_scores: Callable[[], pd.DataFrame]
    store: ResultStore
    few: Mapping[str, TrialRows]

    def epochs(self, trials: pd.DataFrame) -> pd.DataFrame:
        """The evaluations of some trials, by trial and step, with `trial_id`, `cell` and `seed`."""
        rows = of_attempts(self.evaluations, trials).sort_values(["t", "step"], kind="stable")
        return rows.merge(trials[["t", "trial_id", "cell", "seed"]], on="t", how="left")

    def tags(self, trials: pd.DataFrame, split: str) -> pd.DataFrame:
        """The scores by label of some trials, with `trial_id`, `cell` and `seed`. The first call reads all of them."""
        rows = of_attempts(self.label_scores(), trials)
        rows = rows[rows["split"] == split].sort_values(["t", "level", "tag"], kind="stable")
        return rows.merge(trials[["t", "trial_id", "cell", "seed"]], on="t", how="left")

    def spec(self, cell: str, seed: int) -> TrialSpec:
        """The spec of a trial; `seed` is the key of its seeds."""
        return self.specs[cell].with_seeds(Seeds.from_key(seed))

    def trial(self, trial_id: str) -> Mapping[str, Any] | None:
        """The row of a trial of any sweep, with its `sweep`; None if there is none."""
        for sweep in self.sweeps.values():
            rows = sweep.trials[sweep.trials["trial_id"] == trial_id]
            if len(rows):
                return dict(rows.iloc[0].to_dict()) | {"sweep": sweep.name}
        return None


class Frames:
    """Follows a store. `refresh` may be called from any thread."""

    def __init__(self, store: ResultStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._numbers, self._settings = TrialNumbers(), Settings()
        self._ended = FollowedTable(store, "trials", self._numbers, lambda rows: ended_trials(rows, self._settings))
        self._epochs = FollowedTable(store, "epochs", self._numbers)
        self._plans = FollowedPlans(store, self._settings, self._numbers)
        # In this order: a trial's own row is committed last.
        self._followed: list[FollowedTable | FollowedPlans] = [self._ended, self._epochs, self._plans]
        self._tags: FollowedTable | None = None
        self._few = {table: TrialRows(store, table) for table in ("predictions", "contributions")}
        self._drivers: dict[str, tuple[RunningDriver, ...]] = {}
        self._drivers_at = 0.0
        self._snapshot: Snapshot | None = None

    def refresh(self) -> Snapshot:
        """The store as it is now; the same object as before if nothing changed. Raises StoreError."""
        with self._lock:
            changed = [*(followed.refresh() for followed in self._followed), self._look_at_drivers()]
            if self._snapshot is None or any(changed):
                self._snapshot = self._made(self._snapshot.version + 1 if self._snapshot else 1)
            return self._snapshot

    def _label_scores(self) -> pd.DataFrame:
        """The table of tags, which is followed from its first use on."""
        with self._lock:
            if self._tags is None:
                self._tags = FollowedTable(self.store, "tags", self._numbers)
                self._tags.refresh()
                self._followed.append(self._tags)
            return self._tags.rows

    def _look_at_drivers(self) -> bool:
        if time.monotonic() - self._drivers_at < _DRIVER_EVERY_S:
            return False
        drivers: dict[str, tuple[RunningDriver, ...]] = {}
        for driver in running_drivers(self.store.storage):
            drivers[driver.holder.sweep] = (*drivers.get(driver.holder.sweep, ()), driver)
        changed, self._drivers, self._drivers_at = drivers != self._drivers, drivers, time.monotonic()
        return changed

    def _made(self, version: int) -> Snapshot:
        ended = _newest_attempts(self._ended.rows)
        active = self._epochs.rows.groupby("t", as_index=False)[["attempt", "time"]].max()
        sweeps = [self._sweep(plan, ended, active) for plan in self._plans.newest]
        planned = set().union(*(set(sweep.trials["t"]) for sweep in sweeps)) if sweeps else set()
        loose = not set(ended["t"]) <= planned
        if loose or len(sweeps) > 1:
            sweeps.append(self._everything(sweeps, ended, active))
        problems = [problem for followed in self._followed for problem in followed.problems]
        return Snapshot(
            version=version,
            address=self.store.address,
            sweeps={sweep.name: sweep for sweep in sweeps},
            specs=self._settings.by_cell,
            problems=(*problems, *self._settings.unreadable.values()),
            last_row=_newest_time(ended, active),
            evaluations=self._epochs.rows,
            label_scores=self._label_scores,
            store=self.store,
            few=self._few,
        )

    def _sweep(self, plan: PlanFrame, ended: pd.DataFrame, active: pd.DataFrame) -> Sweep:
        drivers = self._drivers.get(plan.name, ())
        since = began_at(drivers)
        ray = next((driver.holder.ray for driver in drivers if driver.holder.ray), "")
        trials = plan.trials.merge(ended.drop(columns=["cell", "seed", "trial_id"]), on="t", how="left")
        begun = trials["t"].map(dict(zip(active["t"], active["attempt"], strict=True)))
        trials["attempt"] = trials["attempt"].fillna(begun).fillna(0).astype("int32")
        waiting = np.where(begun.notna(), "running", "planned") if since is not None else "missing"
        trials["state"] = trials["state"].where(trials["state"].notna(), waiting)
        last = _newest_time(trials, active[active["t"].isin(trials["t"])])
        return Sweep(
            plan.name,
            self._described(trials),
            plan.time,
            plan.source,
            ray,
            since,
            last,
            tuple(map(str, drivers)),
            likely_shares(drivers),
            plan.asks,
        )

    def _everything(self, sweeps: Sequence[Sweep], ended: pd.DataFrame, active: pd.DataFrame) -> Sweep:
        waiting = [
            s.trials.loc[~s.trials["t"].isin(ended["t"]), ["t", "trial_id", "cell", "seed", "attempt", "state"]]
            for s in sweeps
        ]
        trials = pd.concat([ended, *waiting], ignore_index=True).drop_duplicates("t")
        started = max((sweep.started for sweep in sweeps), default=0.0)
        since = min((sweep.running_since for sweep in sweeps if sweep.running_since is not None), default=None)
        return Sweep(EVERYTHING, self._described(trials), started, "", "", since, _newest_time(ended, active))

    def _described(self, trials: pd.DataFrame) -> pd.DataFrame:
        """As every analysis takes it, with `corpus_key` and `NUMBERS`."""
        trials = described(trials, {cell: self._settings.by_cell[cell] for cell in trials["cell"].unique()})
        trials["corpus_key"] = trials["task"] + " " + trials["corpus"]
        for name in NUMBERS:
            trials[name] = trials[name].astype("float64") if name in trials else np.nan
        text_columns = trials.select_dtypes("str").columns  # lookups in object columns are ten times faster
        return trials.astype(dict.fromkeys(text_columns, object)).reset_index(drop=True)


def _newest_attempts(ended: pd.DataFrame) -> pd.DataFrame:
    """One row per trial whose spec can be read, that of its newest attempt."""
    rows = ended[ended["cell"].notna()]
    rows = rows.assign(time=rows["time"].fillna(pd.Timestamp(0, tz="UTC")))
    return rows.sort_values(["t", "attempt"], kind="stable").drop_duplicates("t", keep="last")


def _newest_time(*rows: pd.DataFrame) -> float | None:
    """Unix time of the newest row; None if there is none."""
    stamps = [frame["time"].max() for frame in rows if frame["time"].notna().any()]
    return max(stamps).timestamp() if stamps else None

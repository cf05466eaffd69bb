"""A store as tidy frames that follow its changes: the only place where the dashboards read it.

    frames = Frames(open_store("results"))
    snapshot = frames.refresh()                       # reads new parts only; the same object if nothing is new
    trials = snapshot.sweeps["starter"].trials        # one row per trial, planned ones included
    epochs = snapshot.epochs(trials)                  # one row per evaluation

Columns of `trials`: those of `analysis.cells.cell_columns`, `corpus_key` (task and corpus), `trial_id`, `state`,
`setup`, `seed`, costs and scores (`_ENDED`), and `dev:NAME` and `test:NAME` for each metric. A trial without a row is
`running`, `planned`, or `missing` if no driver runs the sweep.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboards.data.duckdb_mirror import Database, Mirror, TrialNumbers, broken_part_messages, open_database
from dashboards.data.followed import FollowedPlans, FollowedTable, PlanFrame, SpecReader
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.trial_frame import with_collapses, with_costs
from orchestrator.claims.claims import RunningDriver, began_at, likely_shares, running_drivers
from orchestrator.store import ResultStore
from orchestrator.store.contents import BrokenPart
from orchestrator.store.results import Follower
from orchestrator.store.schema import METRICS
from trials.record import COSTS
from trials.settings import Seeds
from trials.spec import TrialSpec

EVERYTHING = "all trials"  # the sweep of a store whose trials no plan names; a real one cannot have a space in its name
_ENDED = (
    "trial_id", "attempt", "state", "best_score", "test_score", "best_epoch", "last_epoch", "total_params",
    "trainable_params", *COSTS, "prefix_layers", "constant_score", "loss_fall", "device", "gpus", "threads",
    "accumulation", "worker_slots", "padding_free", "frozen_layers", "mean_frozen_layers", "git_commit", "error",
    "time",
)  # fmt: skip
_MAPS = {"dev": "best_metrics", "test": "test_metrics"}
_NUMBERS = [
    "score", "test_score", "best_epoch", "last_epoch", "total_params", "trainable_params", *COSTS, "prefix_layers",
    "gpus", "threads", "accumulation", "worker_slots", "padding_free", "frozen_layers", "mean_frozen_layers",
    "constant_score", "loss_fall",
]  # fmt: skip
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
        database: Answers queries to the mirrored tables.
        store: Holds the rows that are not mirrored: losses of steps, predictions.
        need_tags: Mirrors the table of tags if it is not yet mirrored.
        probes: Rows of the store's table of that name.
        drifts: Likewise.
    """

    version: int
    address: str
    sweeps: Mapping[str, Sweep]
    specs: Mapping[str, TrialSpec]
    problems: tuple[str, ...]
    n_rows: int
    last_row: float | None
    database: Database
    store: ResultStore
    need_tags: Callable[[], None]
    probes: pd.DataFrame
    drifts: pd.DataFrame

    def epochs(self, trials: pd.DataFrame) -> pd.DataFrame:
        """The evaluations of some trials, by trial and step, with `trial_id`, `cell` and `seed`."""
        chosen = _chosen(trials)
        found = self.database.ask(
            "SELECT e.* FROM epochs e JOIN chosen USING (t, attempt) ORDER BY t, step", chosen=chosen
        )
        return found.merge(trials[["t", "trial_id", "cell", "seed"]], on="t", how="left")

    def tags(self, trials: pd.DataFrame, split: str) -> pd.DataFrame:
        """The scores by label of some trials, with `trial_id`, `cell` and `seed`. The first call reads all of them."""
        self.need_tags()
        sql = "SELECT g.* FROM tags g JOIN chosen USING (t, attempt) WHERE split = $split ORDER BY t, level, tag"
        found = self.database.ask(sql, chosen=_chosen(trials), values={"split": split})
        return found.merge(trials[["t", "trial_id", "cell", "seed"]], on="t", how="left")

    def moments(self, trials: pd.DataFrame, column: str) -> pd.DataFrame:
        """A column of `epochs` over the seeds of a cell: `cell`, `epoch`, `n`, `mean`, `std` (n - 1), `min`, `max`."""
        assert column in {"score", "train_loss", "dev_loss", *METRICS}, column
        sql = f"""
            SELECT cell, epoch, count({column}) AS n, avg({column}) AS mean, stddev_samp({column}) AS std,
                min({column}) AS min, max({column}) AS max
            FROM epochs JOIN chosen USING (t, attempt) GROUP BY ALL HAVING n > 0 ORDER BY cell, epoch
        """  # noqa: S608
        codes, cells = pd.factorize(trials["cell"])
        found = self.database.ask(sql, chosen=_chosen(trials).assign(cell=codes[trials["t"].ge(0)]))
        return found.assign(cell=cells.to_numpy()[found["cell"]]) if len(found) else found

    def spec(self, cell: str, seed: int) -> TrialSpec:
        """The spec of a trial; `seed` is the key of its seeds."""
        return self.specs[cell].with_seeds(Seeds.from_key(seed))

    def trial(self, trial_id: str) -> Mapping[str, Any] | None:
        """The row of a trial of any sweep, with its `sweep`; None if there is none."""
        for sweep in self.sweeps.values():
            found = sweep.trials[sweep.trials["trial_id"] == trial_id]
            if len(found):
                return dict(found.iloc[0].to_dict()) | {"sweep": sweep.name}
        return None


def _chosen(trials: pd.DataFrame) -> pd.DataFrame:
    return trials.loc[trials["t"] >= 0, ["t", "attempt"]].astype("int32")


class Frames:
    """Follows a store. `refresh` may be called from any thread."""

    def __init__(self, store: ResultStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._database = open_database()
        self._numbers, self._specs = TrialNumbers(), SpecReader()
        self._ended = Follower(store.storage, "trials", [*_ENDED, *_MAPS.values(), "spec"])
        self._epochs = Mirror(self._database, store, "epochs", self._numbers)
        self._tags: Mirror | None = None
        self._rows: list[pd.DataFrame] = []
        self._broken: tuple[BrokenPart, ...] = ()
        self._plans = FollowedPlans(store, self._specs, self._numbers)
        self._unowned = {name: FollowedTable(store, name) for name in ("probes", "drifts")}
        self._drivers: dict[str, tuple[RunningDriver, ...]] = {}
        self._drivers_at = 0.0
        self._snapshot: Snapshot | None = None

    def refresh(self) -> Snapshot:
        """The store as it is now; the same object as before if nothing changed. Raises StoreError."""
        with self._lock:
            changed = [self._look_at_trials(), self._epochs.refresh(), self._plans.refresh(), self._look_at_drivers()]
            changed += [table.refresh() for table in self._unowned.values()]
            changed += [] if self._tags is None else [self._tags.refresh()]
            if self._snapshot is None or any(changed):
                self._snapshot = self._made(self._snapshot.version + 1 if self._snapshot else 1)
            return self._snapshot

    def _need_tags(self) -> None:
        """Mirror the table of tags when it is first used."""
        with self._lock:
            if self._tags is None:
                self._tags = Mirror(self._database, self.store, "tags", self._numbers)
                self._tags.refresh()

    def _look_at_trials(self) -> bool:
        if not self._ended.changed():
            return False
        news = self._ended.poll()
        self._broken = news.broken
        new = [self._tidied(rows) for rows in news.rows]
        self._rows = new if news.reset else [*self._rows, *new]
        if len(self._rows) > 50:
            self._rows = [pd.concat(self._rows, ignore_index=True)]
        return True

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
        frame["cell"] = [found[0] if found else None for found in read]
        frame["seed"] = [found[1] if found else -1 for found in read]
        return frame[frame["cell"].notna()].rename(columns={"best_score": "score"})

    def _look_at_drivers(self) -> bool:
        if time.monotonic() - self._drivers_at < _DRIVER_EVERY_S:
            return False
        found: dict[str, tuple[RunningDriver, ...]] = {}
        for driver in running_drivers(self.store.storage):
            found[driver.holder.sweep] = (*found.get(driver.holder.sweep, ()), driver)
        changed, self._drivers, self._drivers_at = found != self._drivers, found, time.monotonic()
        return changed

    def _made(self, version: int) -> Snapshot:
        ended = _newest(self._rows)
        active = Database(self._database).ask(
            "SELECT t, max(attempt) AS attempt, max(time) AS time FROM epochs GROUP BY t"
        )
        sweeps = [self._sweep(plan, ended, active) for plan in self._plans.newest]
        planned = set().union(*(set(sweep.trials["t"]) for sweep in sweeps)) if sweeps else set()
        loose = not set(ended["t"]) <= planned
        if loose or len(sweeps) > 1:
            sweeps.append(self._everything(sweeps, ended, active))
        tables = {"trials": self._broken, "epochs": self._epochs.broken}
        tables |= {name: table.broken for name, table in self._unowned.items()}
        broken = [message for name, parts in tables.items() for message in broken_part_messages(parts, name)]
        return Snapshot(
            version=version,
            address=self.store.address,
            sweeps={sweep.name: sweep for sweep in sweeps},
            specs=self._specs.by_cell,
            problems=(*broken, *self._plans.problems, *self._specs.unreadable.values()),
            n_rows=self._epochs.n_rows,
            last_row=_newest_time(ended, active),
            database=Database(self._database),
            store=self.store,
            need_tags=self._need_tags,
            probes=self._unowned["probes"].frame(),
            drifts=self._unowned["drifts"].frame(),
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
        """Adds the columns of each trial's cell, and missing columns."""
        columns = pd.DataFrame(self._specs.columns(trials["cell"].unique().tolist()), columns=_CELL)
        columns["corpus_key"] = columns["task"] + " " + columns["corpus"]
        trials = trials.merge(columns, on="cell", how="left")
        for name in _NUMBERS:
            trials[name] = trials[name].astype("float64") if name in trials else np.nan
        trials = with_collapses(with_costs(trials))
        words = trials.select_dtypes("str").columns  # lookups in object columns are ten times faster
        return trials.astype(dict.fromkeys(words, object)).reset_index(drop=True)


_CELL = [
    "cell", "baseline", "group", "task", "metric", "corpus", "model", "freeze", "strategy", "depth", "n_layers",
    "embeddings", "train_size", "setup",
]  # fmt: skip


def _newest_time(*rows: pd.DataFrame) -> float | None:
    """Unix time of the newest row; None if there is none."""
    stamps = [frame["time"].max() for frame in rows if frame["time"].notna().any()]
    return max(stamps).timestamp() if stamps else None


def _newest(rows: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One row per ended trial, that of its newest attempt."""
    if not rows:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in ("t", "cell", "seed", "score", *_ENDED)})
    frame = pd.concat(rows, ignore_index=True)
    frame["time"] = frame["time"].fillna(pd.Timestamp(0, tz="UTC"))
    return frame.sort_values(["t", "attempt"], kind="stable").drop_duplicates("t", keep="last")

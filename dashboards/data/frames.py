"""A store as tidy frames that follow its changes: the only place where the dashboards read it.

    frames = Frames(open_store("results"))
    snapshot = frames.refresh()                       # reads new parts only; the same object if nothing is new
    trials = snapshot.sweeps["starter"].trials        # one row per trial, planned ones included
    epochs = snapshot.epochs(trials)                  # one row per evaluation

Columns of `trials`: those of `analysis.cells.cell_columns`, `corpus_key` (task and corpus), `trial_id`, `state`,
`setup`, `seed`, costs and scores (`NUMBERS`), and `dev:NAME` and `test:NAME` for each metric. A trial without a row is
`running`, `planned`, or `missing` if no driver runs the sweep.

Parsing a spec takes longer than anything else in a large store, so one is parsed for all seeds of a setting: rows say
which setting they are of.

Predictions and contributions are too large to be followed as a whole: of these, rows of a few trials are read
(`TrialRows`). A part is read as a whole, because its digest covers all of it; in memory stay the ids of its trials and
the rows of the trials that were requested, so a part without requested trials is not read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.analysis.trial_frame import CONDITIONS, TEXTS, full_frame
from orchestrator.claims.claims import RunningDriver, began_at, likely_shares, running_drivers
from orchestrator.storage.storage import AccessError
from orchestrator.store import ResultStore
from orchestrator.store.parts import BrokenPart, Follower, PartFolder, latest_rows
from orchestrator.store.plans import SweepPlan, newest_plan, stored_spec
from orchestrator.store.schema import KEYS, METRICS, TABLES
from orchestrator.store.sweep_notes import SweepNote, newest_note
from trials.errors import StoreError
from trials.record import MEASURED
from trials.spec import Seeds, TrialSpec

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

    def numbers(self, ids: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """(n,) integers of a column of trial ids."""
        encoded = ids.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        numbers = np.array([self.number(name) for name in encoded.dictionary.to_pylist()], dtype=np.int32)
        return numbers[encoded.indices.to_numpy(zero_copy_only=False)] if len(numbers) else numbers

    def number(self, trial_id: str) -> int:
        """The integer that stands for a trial id in frames."""
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
        """The `cell_id` and `seed_key` of each row's trial; None if its `spec` cannot be read."""
        columns = (rows[name].to_pylist() for name in ("trial_id", "cell_id", "seed_key", "spec"))
        return [
            self._cell_and_seed(trial_id, cell, key) if cell in self.by_cell else self.of_spec(trial_id, spec or "")
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
        return self._cell_and_seed(trial_id, spec.cell_id, spec.seeds.key)

    def _cell_and_seed(self, trial_id: str, cell: str, seed_key: int) -> tuple[str, int]:
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
        self.rows = self._with_numbers(pa.schema([TABLES[table].field(name) for name in columns]).empty_table())
        self.problems: list[str] = []

    def refresh(self) -> bool:
        """Read new parts, and return whether there were any."""
        if not self._follower.has_changed():
            return False
        news = self._follower.poll()
        way_out = {True: "Upgrade permafrost-sweeps.", False: "Not shown; the same launch runs its trials again."}
        self.problems = [f"{self._table}/{part.name}: {part.wrong}. {way_out[part.newer]}" for part in news.broken]
        rows = self.rows.iloc[:0] if news.reset else self.rows
        if news.rows:
            new = self._with_numbers(pa.concat_tables([part.replace_schema_metadata(None) for part in news.rows]))
            rows = pd.concat([rows, new], ignore_index=True) if len(rows) else new
            rows = rows.drop_duplicates(self._keys, keep="last", ignore_index=True)  # of a killed compaction
        self.rows = rows
        pa.default_memory_pool().release_unused()
        return True

    def _with_numbers(self, rows: pa.Table) -> pd.DataFrame:
        numbers = self._numbers.numbers(rows["trial_id"])
        empty = [name for name in METRICS if name in rows.column_names and rows[name].null_count == len(rows)]
        return self._frame(rows.drop_columns(empty)).assign(t=numbers)


def rows_of_attempts(rows: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Those rows of a followed table whose `t` and `attempt` are of some trials and count, in the table's order."""
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
    note: SweepNote


class FollowedPlans:
    """The newest plan of each sweep; a folder is read again only if its files changed.

    Attributes:
        newest: The newest sweep first.
    """

    def __init__(self, store: ResultStore, settings: Settings, numbers: TrialNumbers) -> None:
        self.newest: tuple[PlanFrame, ...] = ()
        self.problems: tuple[str, ...] = ()
        self._storage, self._settings, self._numbers = store.storage.subfolder("sweeps"), settings, numbers
        self._read: dict[str, tuple[frozenset[str], PlanFrame | str | None]] = {}

    def refresh(self) -> bool:
        """Read changed plans, and return whether there were any."""
        listed = {name: frozenset(files) for name, files in self._storage.files_by_folder().items()}
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
            folder = self._storage.subfolder(name)
            plan, note = newest_plan(folder, files), newest_note(folder, files)
        except AccessError:
            raise
        except StoreError as error:
            return files, str(error)
        return files, None if plan is None else self._frame(plan, note)

    def _frame(self, plan: SweepPlan, note: SweepNote) -> PlanFrame:
        read = [(trial_id, self._settings.of_spec(trial_id, spec)) for trial_id, spec in plan.trials]
        rows = [(self._numbers.number(i), i, *pair) for i, pair in read if pair]
        trials = pd.DataFrame(rows, columns=["t", "trial_id", "cell", "seed"]).drop_duplicates("t")
        return PlanFrame(plan.name, plan.time, plan.source, trials, plan.decision_plan, note)


_COLUMNS = {
    "predictions": ("trial_id", "attempt", "split", "sentence", "gold", "predicted"),
    "contributions": TABLES["contributions"].names,
}
_MOST = {"predictions": 40}  # trials in memory


class TrialRows:
    """One table of a store, read for a few trials at a time, from any thread."""

    def __init__(self, store: ResultStore, table: str, *, most: int | None = None) -> None:
        self._parts = PartFolder(store.storage.subfolder(table), TABLES[table])
        self._columns, self._keys = list(_COLUMNS[table]), KEYS[table]
        self._most = _MOST.get(table) if most is None else most
        self._empty = pa.schema([TABLES[table].field(name) for name in self._columns]).empty_table()
        self._lock = threading.Lock()
        self._holds: dict[str, frozenset[str]] = {}
        self._rows: dict[str, pa.Table] = {}
        self._loaded: set[str] = set()

    def rows(self, trials: pd.DataFrame) -> pa.Table:
        """Rows of the attempts that count of some trials, `trial_id` and `attempt`, in no order. Raises StoreError."""
        attempts = dict(zip(trials["trial_id"], trials["attempt"].astype(int), strict=True))
        with self._lock:
            if self._most is not None and len(self._loaded) > self._most:
                self._loaded, self._rows = set(), {}
            self._read_parts(set(attempts) - self._loaded)
            return self._find(attempts)

    def _read_parts(self, missing: set[str]) -> None:
        def read(name: str) -> pa.Table | BrokenPart | None:
            is_known = name in self._holds and not self._holds[name] & missing
            return None if is_known else self._parts.read_part(name, self._columns)

        loaded = self._loaded | missing
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

    def _find(self, attempts: Mapping[str, int]) -> pa.Table:
        rows = pa.concat_tables([self._empty, *(t.replace_schema_metadata(None) for t in self._rows.values())])
        chosen = rows.filter(pc.is_in(rows["trial_id"], pa.array(sorted(attempts), pa.string())))
        pairs = zip(chosen["trial_id"].to_pylist(), chosen["attempt"].to_pylist(), strict=True)
        right = pa.array([attempts[trial_id] == attempt for trial_id, attempt in pairs], pa.bool_())
        return latest_rows(chosen.filter(right), self._keys)


EVERYTHING = "all trials"  # the sweep of a store whose trials no plan names; a real one cannot have a space in its name
_DRIVER_EVERY_S = 3.0  # seconds between two readings of who runs: a listing of the store each


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
        note: What people wrote about it.
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
    note: SweepNote = field(default_factory=SweepNote)

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
        rows = rows_of_attempts(self.evaluations, trials).sort_values(["t", "step"], kind="stable")
        return rows.merge(trials[["t", "trial_id", "cell", "seed"]], on="t", how="left")

    def tags(self, trials: pd.DataFrame, split: str) -> pd.DataFrame:
        """The rows of `tags` of these trials and `split`, with `trial_id`, `cell`, `seed`; the first call reads all."""
        rows = rows_of_attempts(self.label_scores(), trials)
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
                self._snapshot = self._make_snapshot(self._snapshot.version + 1 if self._snapshot else 1)
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

    def _make_snapshot(self, version: int) -> Snapshot:
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
            self._describe(trials),
            plan.time,
            plan.source,
            ray,
            since,
            last,
            tuple(map(str, drivers)),
            likely_shares(drivers),
            plan.asks,
            plan.note,
        )

    def _everything(self, sweeps: Sequence[Sweep], ended: pd.DataFrame, active: pd.DataFrame) -> Sweep:
        waiting = [
            s.trials.loc[~s.trials["t"].isin(ended["t"]), ["t", "trial_id", "cell", "seed", "attempt", "state"]]
            for s in sweeps
        ]
        trials = pd.concat([ended, *waiting], ignore_index=True).drop_duplicates("t")
        started = max((sweep.started for sweep in sweeps), default=0.0)
        since = min((sweep.running_since for sweep in sweeps if sweep.running_since is not None), default=None)
        return Sweep(EVERYTHING, self._describe(trials), started, "", "", since, _newest_time(ended, active))

    def _describe(self, trials: pd.DataFrame) -> pd.DataFrame:
        """The trials as every analysis takes them, with `corpus_key` and `NUMBERS`."""
        trials = full_frame(trials, {cell: self._settings.by_cell[cell] for cell in trials["cell"].unique()})
        trials["corpus_key"] = trials["task"] + " " + trials["corpus"]
        for name in NUMBERS:
            trials[name] = trials[name].astype("float64") if name in trials else np.nan
        text_columns = trials.select_dtypes("str").columns  # lookups in object columns are ten times faster
        return trials.astype(dict.fromkeys(text_columns, object)).reset_index(drop=True)


def _newest_attempts(ended: pd.DataFrame) -> pd.DataFrame:
    """The newest attempt of each trial whose spec can be read, one row each."""
    rows = ended[ended["cell"].notna()]
    rows = rows.assign(time=rows["time"].fillna(pd.Timestamp(0, tz="UTC")))
    return rows.sort_values(["t", "attempt"], kind="stable").drop_duplicates("t", keep="last")


def _newest_time(*rows: pd.DataFrame) -> float | None:
    """Unix time of the newest row; None if there is none."""
    stamps = [frame["time"].max() for frame in rows if frame["time"].notna().any()]
    return max(stamps).timestamp() if stamps else None

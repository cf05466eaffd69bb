"""Open a store and read it: tables without duplicates, and the plan of each sweep.

from orchestrator.store import open_store

store = open_store("results")       # or s3://bucket/prefix, gs://bucket/prefix; or several, joined by commas
store.trials(), store.epochs()      # Arrow tables
store.evidence(specs).frame         # what every answer, report and card rests on
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.config.quantities import amount
from orchestrator.storage.address import local_path
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import BrokenError, FolderStorage, NewerError, SeveralStorages, Storage
from orchestrator.store.evidence import TRIAL_COLUMNS, Evidence, evidence_of
from orchestrator.store.parts import PartFolder, report
from orchestrator.store.plans import (
    SWEEPS,
    Suggestion,
    SweepPlan,
    is_beside,
    is_plan,
    is_sweep_name,
    newest_plan,
    newest_stamp,
    read_plan,
    write_plan,
)
from orchestrator.store.schema import ALL_TABLES, CHECKPOINTS, MEASURED_COLUMNS, SCHEMA_VERSION
from trials.errors import NothingMatchedError, StoreError
from trials.record import State
from trials.spec import TrialSpec

MARKER = "store.json"
FORMAT = "permafrost-store"
NEEDED = ("epochs", "tags", "contributions")  # tables that a completed trial must be whole in; predictions are a bonus


class ResultStore:
    """A store: one folder for each of `schema.ALL_TABLES`, and `sweeps/`. Trials belong to the store, not to a sweep.

    Attributes:
        storage: The folder or object store that it is in.
    """

    def __init__(self, storage: Storage | Path, *, is_marked: bool = True) -> None:
        """Without `is_marked` the store's marker is broken and is written again at the first write."""
        self.storage = FolderStorage(storage) if isinstance(storage, Path) else storage
        self._is_marked = is_marked
        self._parts = {name: PartFolder(self.storage.subfolder(name), schema) for name, schema in ALL_TABLES.items()}

    @property
    def address(self) -> str:
        """The folder or address that `open_store` and `--store` accept."""
        return self.storage.address

    @property
    def root(self) -> Path:
        """The folder; only for a local store."""
        assert isinstance(self.storage, FolderStorage), self.address
        return self.storage.folder

    def trials(self, columns: Sequence[str] | None = None) -> pa.Table:
        """One row per ended `trial_id`, from its newest attempt, with all columns of `schema.TRIALS` or these."""
        read = None if columns is None else ["trial_id", "attempt", *columns]
        return _newest(self._parts["trials"].read(columns=read), ["trial_id"])

    def epochs(self) -> pa.Table:
        """One row per evaluation of each trial's newest ended attempt, or if none has ended, of its newest.

        Columns: `schema.EPOCHS`; ordered by trial and step.
        """
        return self._committed_rows("epochs", ["trial_id", "step"])

    def tags(self) -> pa.Table:
        """One row per label of each scored split of each trial. Columns: `schema.TAGS`."""
        return self._committed_rows("tags", ["trial_id", "split", "level", "tag"])

    def contributions(self, trial_id: str | None = None) -> pa.Table:
        """One row per scored split of a trial, or of all trials. Columns: `schema.CONTRIBUTIONS`."""
        return self._committed_rows("contributions", ["trial_id", "split"], trial_id)

    def predictions(self, trial_id: str | None = None) -> pa.Table:
        """One row per sentence of each scored split of a trial, or of all trials. Columns: `schema.PREDICTIONS`."""
        return self._committed_rows("predictions", ["trial_id", "split", "sentence"], trial_id)

    def _committed_rows(self, table: str, keys: list[str], trial_id: str | None = None) -> pa.Table:
        """Rows of each trial's newest ended attempt, or if none has ended, of its newest; one per key, in order."""
        ended = self.trials([])  # read first, as it is written last: the other rows of these trials exist
        rows = self._parts[table].read(trial_id)
        committed = dict(zip(ended["trial_id"].to_pylist(), ended["attempt"].to_pylist(), strict=True))
        chosen = newest_attempts(rows) | committed
        ids, attempts = rows["trial_id"].to_pylist(), rows["attempt"].to_pylist()
        wanted = pa.array([chosen[i] == a for i, a in zip(ids, attempts, strict=True)], pa.bool_())
        return _newest(rows.filter(wanted), keys)

    def evidence(self, specs: Sequence[TrialSpec]) -> Evidence:
        """The planned trials of a sweep with their stored rows: all that answers rest on. Raises StoreError.

        A trial that has lost contributions is left out, as it will run again.
        """
        trials, contributions = self.trials([*TRIAL_COLUMNS, "row_counts"]), self.contributions()
        lost = lost_rows(trials, {"contributions": contributions})
        self._report_lost({trial_id for trial_id, _ in lost})
        whole = pa.array([pair not in lost for pair in _pairs(trials)], pa.bool_())
        return evidence_of(specs, trials.filter(whole), contributions)

    def completed_ids(self) -> frozenset[str]:
        """The trials that do not have to run again: they are complete, and have lost nothing that numbers rest on."""
        trials, lost = self._completed_attempts()
        whole = frozenset(pair[0] for pair in _pairs(trials) if pair not in lost)
        self._report_lost({trial_id for trial_id, _ in lost} - whole)
        return whole

    def lost_attempts(self) -> frozenset[tuple[str, int]]:
        """The completed attempts that have lost rows on which numbers rest."""
        return self._completed_attempts()[1]

    def _completed_attempts(self) -> tuple[pa.Table, frozenset[tuple[str, int]]]:
        """The rows of completed attempts, and the attempts among them whose other rows were lost."""
        trials = self._parts["trials"].read(columns=["trial_id", "attempt", "state", "row_counts", *MEASURED_COLUMNS])
        trials = trials.filter(pc.equal(trials["state"], State.COMPLETED))
        tables = {name: self._parts[name].read(columns=["trial_id", "attempt", "values"]) for name in NEEDED}
        return trials, frozenset(lost_rows(trials, tables))

    def _report_lost(self, trial_ids: Collection[str]) -> None:
        if trial_ids:
            n = f"{amount(len(trial_ids), 'completed trial')}, {min(trial_ids)} among them, have lost rows"
            report(f"{self.address}: {n}. They are left out, and the same launch runs them again.")

    def attempts(self) -> dict[str, int]:
        """The number of the newest attempt of every trial that has any row."""
        # From both tables: an attempt whose worker was lost has evaluations only, one that failed early its end only.
        tables = [self._parts[name].read(columns=["trial_id", "attempt"]) for name in ("epochs", "trials")]
        return newest_attempts(pa.concat_tables(tables))

    def checkpoint_steps(self) -> dict[str, int]:
        """The optimiser step of the newest checkpoint of every trial that has one."""
        steps: dict[str, int] = {}
        # Ids are hexadecimal, and names sort by attempt and step: the last one of a trial is its newest checkpoint.
        for name in self.storage.subfolder(CHECKPOINTS).files("0", "g"):
            trial_id, _, rest = name.partition("-")
            _, _, step = rest.partition("-")
            if (digits := step.partition("-")[0]).isdecimal():
                steps[trial_id] = int(digits)
        return steps

    def append(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Commit rows of a table. Only the Recorder calls this."""
        self.create()
        self._parts[table].append(rows)

    def compact(self) -> None:
        """Merge the small parts of each table."""
        for parts in self._parts.values():
            parts.compact()

    def sweeps(self) -> list[SweepPlan]:
        """The newest plan of every sweep, the oldest sweep first."""
        folders = self.storage.subfolder(SWEEPS)
        plans = [newest_plan(folders.subfolder(name), names) for name, names in folders.files_by_folder().items()]
        return sorted((plan for plan in plans if plan is not None), key=lambda plan: plan.time)

    def sweep(self, name: str | None = None, *, compares: bool = False) -> SweepPlan:
        """The newest plan of a sweep; without a name of the newest, or the newest question where one `compares`
        settings: neither the sweep of a model trained from its answer nor one that `choose` ran beside it.

        Raises:
            NothingMatchedError: There is none.
        """
        plans = {plan.name: plan for plan in self.sweeps()}
        if not plans:
            raise NothingMatchedError(f"{self.address} holds no sweep.")
        if name is not None and name not in plans:
            raise NothingMatchedError(f"{self.address} has no sweep {name!r}; it has {', '.join(plans)}.")
        if name is not None:
            return plans[name]
        newest = [*reversed(plans.values())]
        questions = (plan for plan in newest if not is_beside(plan.name, plans))
        asks = (plan for plan in questions if any(s.freeze.label != plan.specs[0].freeze.label for s in plan.specs))
        return next(asks, newest[0]) if compares else newest[0]

    def earlier_trials(self, plan: SweepPlan) -> SweepPlan:
        """The trials that earlier plans of a sweep declared and its newest one does not."""
        folder = self._folder_of(plan.name)
        declared = list[tuple[tuple[str, dict[str, Any]], ...]]()
        for name in sorted(filter(is_plan, folder.files("plan-", "plan.")))[:-1]:  # the last is the newest
            with suppress(BrokenError, FileNotFoundError):  # `sweeps` reports it; a search replaced it
                declared.append(read_plan(folder, name).trials)
        now = dict(plan.trials)
        earlier = {trial_id: spec for trials in declared for trial_id, spec in trials if trial_id not in now}
        return replace(plan, trials=tuple(earlier.items()))

    def add_plan(self, plan: SweepPlan) -> None:
        """Add a plan, unless the sweep's newest plan declares the same. No plan is ever overwritten.

        Raises:
            StoreError: the name is not a plain file name, or the storage cannot be written.
        """
        folder = self._folder_of(plan.name)
        self.create()
        newest = newest_plan(folder)
        if newest is None or replace(newest, time=plan.time, source=plan.source) != plan:
            sweeps = self.storage.subfolder(SWEEPS)
            write_plan(
                folder,
                plan,
                after_ns=max(newest_stamp(sweeps.subfolder(name)) for name in (plan.name, *sweeps.folders())),
            )

    def extend_plan(self, more: SweepPlan) -> None:
        """Replace a sweep's newest plan by one with more trials and suggestions. Raises as `add_plan` does."""
        folder = self._folder_of(more.name)
        newest = newest_plan(folder)
        older = list(folder.files("plan-", "plan."))[-1:] if newest else []
        if newest is not None:
            trials = tuple((dict(newest.trials) | dict(more.trials)).items())
            more = replace(newest, trials=trials, suggestions=(*newest.suggestions, *more.suggestions))
        write_plan(folder, more)
        for name in older:  # whose trials the new one has
            folder.delete(name)

    def suggestions(self, sweep: str) -> tuple[Suggestion, ...]:
        """What the sampler of a search suggested, in all its launches and in order. Raises BrokenError."""
        plan = newest_plan(self._folder_of(sweep))
        return () if plan is None else plan.suggestions

    def _folder_of(self, sweep: str) -> Storage:
        if not is_sweep_name(sweep):
            raise StoreError(f"{sweep!r} is not a valid name of a sweep, as a folder has this name.")
        return self.storage.subfolder(SWEEPS).subfolder(sweep)

    @property
    def is_gone(self) -> bool:
        """Whether it was deleted or moved: its marker, which nothing of ours deletes, and all rows are not there."""
        try:
            self.storage.read(MARKER)
        except FileNotFoundError:
            return not holds_rows(self.storage)
        except (OSError, StoreError):  # of which nothing is known
            return False
        return False

    def check_exists(self) -> None:
        """Raise StoreError if a local folder of the store is gone, as the next commit would create it anew."""
        if not self.storage.exists(MARKER) and self.is_gone:
            raise StoreError(f"{self.address}: the store is gone.")

    def create(self) -> None:
        """Write the store's marker, which says that this is a store, and its version, if there is no good one."""
        if not self._is_marked or not self.storage.exists(MARKER):
            content = json.dumps({"format": FORMAT, "schema_version": SCHEMA_VERSION}, indent=1)
            self.storage.write(MARKER, f"{content}\n".encode())
            self._is_marked = True


def open_store(path: str | Path, *, must_exist: bool = True) -> ResultStore:
    """Open a store; without `must_exist` an absent or empty folder is a new store, created at the first write.

    Args:
        path: A folder, `s3://bucket/prefix` or `gs://bucket/prefix`, or several of them joined by commas, which are
            read as one. Credentials come from the environment or the provider's own files.

    Raises:
        ConfigError: not a valid address, or one with credentials in it.
        StoreError: no store there, something else, a store of a newer version, or a storage that cannot be reached.
    """
    if len(places := _places(path)) > 1:
        if not must_exist:
            raise StoreError(f"{path}: several stores are only read. Give one with --store.")
        return _read_as_one([open_store(place) for place in places])
    storage = open_storage(path)
    if not _is_store(storage):
        is_free = storage.is_free()
        if not _is_store(storage):  # another launch may have created it meanwhile
            _check_place(storage, is_free=is_free, must_exist=must_exist)
            return ResultStore(storage)
    try:
        check_marker(storage)
    except NewerError:
        raise
    except BrokenError as error:
        if not holds_rows(storage):
            raise
        report(f"{storage}/{MARKER}: {error.wrong}. The rows are read all the same; the next launch writes it again.")
        return ResultStore(storage, is_marked=False)
    return ResultStore(storage)


def _places(path: str | Path) -> list[str]:
    """The stores that a path names: a folder may have a comma in its name."""
    text = str(path)
    return [text] if "," not in text or local_path(text).exists() else list(filter(None, text.split(",")))


def _read_as_one(stores: Sequence[ResultStore]) -> ResultStore:
    """A read-only store whose rows are those of several stores. Raises StoreError."""
    ranks: dict[str, tuple[bool, int, int]] = {}  # of a trial: whether it is complete, attempts, the earlier store
    for number, store in enumerate(stores):
        completed = store.completed_ids()
        for trial_id, attempt in store.attempts().items():
            rank = (trial_id in completed, attempt, -number)
            ranks[trial_id] = max(rank, ranks.get(trial_id, rank))
    owners = {trial_id: -rank[2] for trial_id, rank in ranks.items()}
    storages = [store.storage for store in stores]
    return ResultStore(SeveralStorages(storages, dict.fromkeys(ALL_TABLES, owners)))


def _is_store(storage: Storage) -> bool:
    return storage.exists(MARKER) or holds_rows(storage)


def _check_place(storage: Storage, *, is_free: bool, must_exist: bool) -> None:
    """Check that a store can be created where there is none. Raises StoreError."""
    if not is_free:
        raise StoreError(
            f"{storage}: contains something other than a Permafrost store. Give another folder with --store."
        )
    if must_exist:
        raise StoreError(f"{storage}: no store there. Run a sweep first, or give its folder with --store.")
    storage.check_writable()


def check_marker(storage: Storage) -> None:
    """Check the marker of a store.

    Raises:
        NewerError: a newer version wrote it.
        BrokenError: it is absent, unreadable, or something else.
    """
    path = f"{storage}/{MARKER}"

    def broken_error(wrong: str) -> BrokenError:
        return BrokenError(path, wrong, "Give another folder")

    try:
        content = json.loads(storage.read(MARKER).decode("utf-8"))
        right_format, version = content["format"] == FORMAT, int(content["schema_version"])
    except FileNotFoundError:
        raise broken_error("is not there") from None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise broken_error(f"not the marker of a Permafrost store ({error})") from error
    if not right_format or version < 1:
        stated = f"format {content['format']!r}, not {FORMAT!r}" if not right_format else f"schema {version}"
        raise broken_error(f"says {stated}")
    if version > SCHEMA_VERSION:
        raise NewerError(path, f"a store of a newer version (schema {version}, this one reads up to {SCHEMA_VERSION})")


def holds_rows(storage: Storage) -> bool:
    """Whether there are parts of a store, whatever its marker says."""
    return any(PartFolder(storage.subfolder(name), schema).names() for name, schema in ALL_TABLES.items())


def lost_rows(trials: pa.Table, tables: Mapping[str, pa.Table]) -> dict[tuple[str, int], dict[str, tuple[int, int]]]:
    """By attempt and table, how many rows are there and how many were committed, where some are lost.

    Args:
        trials: Rows of ended attempts: `trial_id`, `attempt`, `row_counts`.
        tables: By name, all rows of some tables: `trial_id`, `attempt`. One that is in two parts may count twice.
    """
    there = {name: Counter(_pairs(rows)) for name, rows in tables.items()}
    lost = dict[tuple[str, int], dict[str, tuple[int, int]]]()
    for pair, counts in zip(_pairs(trials), trials["row_counts"].to_pylist(), strict=True):
        for name, n_rows in counts or ():
            if name in there and there[name][pair] < n_rows:
                lost.setdefault(pair, {})[name] = (there[name][pair], n_rows)
    return lost


def _pairs(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True)


def newest_attempts(rows: pa.Table) -> dict[str, int]:
    """The largest `attempt` of each `trial_id` in a table."""
    newest: dict[str, int] = {}
    for trial_id, attempt in zip(rows["trial_id"].to_pylist(), rows["attempt"].to_pylist(), strict=True):
        newest[trial_id] = max(attempt, newest.get(trial_id, attempt))
    return newest


def _newest(rows: pa.Table, keys: list[str]) -> pa.Table:
    """One row per key, ordered by key: the row of the largest attempt, and the last of equal ones."""
    row = pa.arange(0, len(rows))
    order = pa.table({**{key: rows[key] for key in keys}, "attempt": rows["attempt"], "row": row})
    order = order.sort_by([*((key, "ascending") for key in keys), ("attempt", "ascending"), ("row", "ascending")])
    if len(order) < 2:
        return rows
    # Not `group_by`, which would import pandas; by codes, as null keys are equal to each other.
    codes = [order[key].combine_chunks().dictionary_encode("encode").indices for key in keys]
    differs = reduce(pc.or_, [pc.not_equal(code[:-1], code[1:]) for code in codes])
    row = order["row"].combine_chunks()
    return rows.take(pa.concat_arrays([row[:-1].filter(differs), row[-1:]]))

"""Look a store through: every byte that has a digest, every key, every completed trial.

from orchestrator.store.check import check_store

report = check_store("results")     # or s3://...; or a `Storage`
report.ok, report.findings, report.notes, report.counted

It writes nothing and may be called while a sweep runs: what a running sweep has not finished is no finding.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from safetensors import SafetensorError, deserialize

from orchestrator.lease.claims import Claim, ClaimFolder
from orchestrator.storage.errors import BrokenError, NewerError
from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import Storage
from orchestrator.store.check_rows import check_rows
from orchestrator.store.contents import TableContents, read_contents
from orchestrator.store.diagnosis import Counted, Diagnosis, Report
from orchestrator.store.names import is_intact, promised
from orchestrator.store.plans import SWEEPS, SweepPlan, decoded_plan, is_forecast, is_plan, is_suggestion, newest_plan
from orchestrator.store.results import MARKER, check_marker
from orchestrator.store.schema import TABLES, State
from orchestrator.store.wholeness import spec_of
from trials.errors import StoreError

CHECKPOINTS, LEASES, QUARANTINE = "checkpoints", "leases", "quarantine"
CHECKPOINT = re.compile(r"([0-9a-f]{16})-\d{6,}-\d{12,}(-[0-9a-f]{16})?\.safetensors")
_AGAIN = "its trials run again where they are needed"


def check_store(store: str | Path | Storage) -> Report:
    """What a store is like.

    Raises:
        ConfigError: an address that is none.
        StoreError: no store there, a store of a newer version, or a storage that does not answer.
    """
    return diagnose(store if isinstance(store, Storage) else open_storage(store))[1]


def diagnose(storage: Storage) -> tuple[Diagnosis, Report, dict[str, TableContents]]:
    """The same, with what `repair` would take out, and the rows it was told from. Raises as `check_store` does."""
    found = Diagnosis()
    _check_mark(storage, found)
    tables = read_contents(storage)
    plans = _check_plans(storage, found)
    for name, table in tables.items():
        _check_parts(name, table, found)
    check_rows(tables, found)
    states = _states(tables, plans)
    checkpoints = _check_checkpoints(storage, states, found)
    leases = {sweep: len(_check_leases(storage, sweep, found)) for sweep in storage.at(LEASES).folders()}
    quarantined = _quarantined(storage.at(QUARANTINE))
    if quarantined:
        found.notes.append(
            f"{QUARANTINE}: {quarantined} files that repairs took out. Delete them when nobody needs them."
        )
    counted = Counted(
        parts={name: len(tables[name].names) + len(tables[name].broken) for name in TABLES},
        rows={name: len(tables[name].rows) for name in TABLES},
        n_bytes={name: tables[name].n_bytes for name in TABLES},
        states=dict(sorted(Counter(states.values()).items())),
        checkpoints=checkpoints,
        leases={sweep: n for sweep, n in leases.items() if n},
        quarantined=quarantined,
    )
    return found, Report(storage.address, tuple(found.findings), tuple(found.notes), counted), tables


def _check_mark(storage: Storage, found: Diagnosis) -> None:
    """Raises StoreError where this is no store, or of a newer version."""
    try:
        check_marker(storage)
    except NewerError:
        raise
    except BrokenError as error:
        if not any(storage.at(name).files() for name in TABLES):
            if not storage.exists(MARKER):
                raise StoreError(f"{storage}: no store there. Give the folder of one with --store.") from None
            raise
        found.marker = True
        wrong = error.wrong if storage.exists(MARKER) else "is not there"
        found.find(MARKER, wrong, "no command opens this store")


def _check_parts(name: str, table: TableContents, found: Diagnosis) -> None:
    for part in table.broken:
        if part.newer:
            found.newer.append(f"{name}/{part.name}")
            found.find(f"{name}/{part.name}", part.wrong, "nothing can be read. Upgrade permafrost-sweeps")
        else:
            found.take_file((name,), part.name, part.wrong, f"nothing can be read; without it {_AGAIN}")
    found.notes += [f"{name}/{file}: is no part, and nobody reads it." for file in table.strange]
    undated = sum(promised(part) is None for part in table.names)
    if undated:
        found.notes.append(
            f"{name}: {undated} parts are from before names held digests; only what contradicts itself can be told."
        )


def _check_plans(storage: Storage, found: Diagnosis) -> list[SweepPlan]:
    """The newest plan of each sweep that can be read."""
    newest = []
    for sweep in storage.at(SWEEPS).folders():
        folder, plans, suggested = storage.at(SWEEPS).at(sweep), list[SweepPlan](), list[SweepPlan]()
        for name in (name for name in folder.files() if is_plan(name) or is_suggestion(name)):
            try:
                plan = decoded_plan(f"{folder}/{name}", folder.read(name))
                (plans if is_plan(name) else suggested).append(plan)
                _check_specs(f"{SWEEPS}/{sweep}/{name}", plan, found)
            except FileNotFoundError:
                continue
            except (OSError, BrokenError) as error:
                wrong = error.wrong if isinstance(error, BrokenError) else f"cannot be read ({error})"
                found.take_file(
                    (SWEEPS, sweep), name, wrong, "`status` cannot be asked; the next launch writes it anew"
                )
        newest += [*plans[-1:], *suggested]
        _check_forecasts(folder, (SWEEPS, sweep), found)
    return newest


def _check_forecasts(folder: Storage, path: tuple[str, ...], found: Diagnosis) -> None:
    for name in filter(is_forecast, folder.files()):
        try:
            intact, said = is_intact(name, folder.read(name)), "its bytes are not those that were written"
        except FileNotFoundError:
            continue
        except OSError as error:
            intact, said = False, f"cannot be read ({error})"
        if not intact:
            found.take_file(path, name, said, "the report cannot say how right that forecast was")


def _check_specs(name: str, plan: SweepPlan, found: Diagnosis) -> None:
    wrong = {i: said for i, spec in plan.trials if isinstance(said := spec_of(spec, i), str)}
    if wrong:
        first, said = next(iter(wrong.items()))
        found.find(
            name,
            f"{len(wrong)} of {len(plan.trials)} trials are not what their ids say; the first, {first}: {said}",
            "`status` may show them wrongly; the next launch plans anew",
        )


def _states(tables: dict[str, TableContents], plans: list[SweepPlan]) -> dict[str, str]:
    """Each trial's state as readers show it."""
    states = dict.fromkeys((trial_id for plan in plans for trial_id, _ in plan.trials), "not ended")
    states |= dict.fromkeys(tables["epochs"].rows["trial_id"].unique().to_pylist(), "not ended")
    rows = tables["trials"].rows.select(["trial_id", "attempt", "state"]).to_pylist()
    return states | {row["trial_id"]: row["state"] for row in sorted(rows, key=lambda row: row["attempt"] or 0)}


def _check_checkpoints(storage: Storage, states: dict[str, str], found: Diagnosis) -> dict[str, int]:
    folder, counts = storage.at(CHECKPOINTS), Counter[str]()
    for name in folder.files():
        match = CHECKPOINT.fullmatch(name)
        if match is None:
            found.notes.append(f"{CHECKPOINTS}/{name}: is no checkpoint, and nobody reads it.")
            continue
        state = states.get(match[1])
        counts[{None: "unknown", "not ended": "to go on"}.get(state, "ended")] += 1
        try:
            wrong = _wrong_checkpoint(name, folder.read(name))
        except FileNotFoundError:  # a newer one has replaced it
            continue
        except OSError as error:
            wrong = f"cannot be read ({error})"
        if wrong:
            found.take_file((CHECKPOINTS,), name, wrong, "its trial goes on from an older one or starts anew")
    return dict(counts)


def _wrong_checkpoint(name: str, content: bytes) -> str | None:
    if not is_intact(name, content):
        return "its bytes are not those that were written, by the digest in its name"
    try:
        deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        return f"not a readable checkpoint ({error})"
    return None


def _check_leases(storage: Storage, sweep: str, found: Diagnosis) -> dict[str, Claim]:
    folder = ClaimFolder(storage.at(LEASES).at(sweep))
    claims = folder.look()
    for claim in claims.values():
        try:
            folder.holder(claim)
        except StoreError as error:
            wrong = str(error).removeprefix(f"{folder.storage}/{claim.names[-1]}: ").partition(". ")[0]
            found.take_file((LEASES, sweep), claim.names[-1], wrong, "no driver can run this sweep")
    return claims


def _quarantined(folder: Storage) -> int:
    return len(folder.files()) + sum(_quarantined(folder.at(name)) for name in folder.folders())


def planned_labels(storage: Storage) -> dict[str, str]:
    """The trials of every sweep's newest plan, each with its label. Raises BrokenError."""
    labels = {}
    for sweep in storage.at(SWEEPS).folders():
        plan = newest_plan(storage.at(SWEEPS).at(sweep))
        for trial_id, values in plan.trials if plan else ():
            spec = spec_of(values, trial_id)
            labels[trial_id] = trial_id if isinstance(spec, str) else spec.label
    return labels


def completed_ids(tables: dict[str, TableContents]) -> set[str]:
    """Trials that no launch runs again."""
    rows = tables["trials"].rows.select(["trial_id", "state"]).to_pylist()
    return {row["trial_id"] for row in rows if row["state"] == State.COMPLETED}

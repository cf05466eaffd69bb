"""Merge one store into another: every attempt that is missing there, and the plans of sweeps.

Attempts in two stores may have the same number, but within one trial numbers must be unique. So an attempt is
identified by its rows of `epochs` and `trials`, which contain times in microseconds. Therefore an attempt that was
merged before is recognised under its new number, a merge that was killed is completed, and merging again adds nothing.

New numbers count up from the largest one of the trial. If the trial is already complete here, its completed attempt
remains the newest: unfinished attempts of the other store get the numbers 0, -1, and so on, and a completed one is not
copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from orchestrator.extras.store_care.check_rows import Pair
from orchestrator.storage.storage import Storage
from orchestrator.store.contents import (
    COMMIT_ORDER,
    COMPUTED,
    SWEEPS,
    WEIGHTS,
    TableContents,
    is_plan,
    latest,
    read_contents,
    weights_of,
)
from orchestrator.store.decisions import join_decisions, recorded
from orchestrator.store.parts import PartFolder
from orchestrator.store.results import ResultStore
from orchestrator.store.schema import ALL_TABLES, KEYS, UNOWNED, WRONG_DIGEST, State, is_intact, proven_reads, unusable
from trials.errors import StoreError

PAIR = ("trial_id", "attempt")
AttemptDigests = dict[int, frozenset[bytes]]  # of one trial: the digests of each attempt's rows


@dataclass
class Merged:
    """The result of a merge.

    Attributes:
        rows: The number of rows added, by table.
        kept: Trials that each store had completed by itself; the source's attempt was not copied.
        differing: Those of them whose computed numbers differ, each with the first difference.
    """

    rows: dict[str, int] = field(default_factory=dict)
    attempts: int = 0
    plans: int = 0
    kept: list[str] = field(default_factory=list)
    differing: dict[str, str] = field(default_factory=dict)


def merge(source: ResultStore, target: ResultStore) -> Merged:
    """Add the contents of `source` to `target`; a merge that was killed can be repeated.

    Raises:
        StoreError: a store has unreadable parts, or `target` cannot be written.
    """
    theirs, ours = _tables(source.storage), _tables(target.storage)
    our_trials, their_done, our_done = _trials(ours), _completed(theirs), _completed(ours)
    numbers, kept = dict[Pair, int](), dict[Pair, int]()
    for i, digests in sorted(_trials(theirs).items()):
        given, left_out = _numbers(digests, our_trials.get(i, {}), their_done.get(i, set()), our_done.get(i, set()))
        numbers |= {(i, attempt): number for attempt, number in given.items()}
        kept |= {(i, attempt): number for attempt, number in left_out.items()}
    done = Merged(kept=sorted({trial_id for trial_id, _ in kept}), differing=_differing(theirs, ours, kept))
    _add_weights(source.storage, target, their_done.keys() - our_done.keys())  # before the rows that count
    touched: set[Pair] = set()
    for name in (*COMMIT_ORDER, *UNOWNED):
        rows = theirs[name] if name in UNOWNED else _renumbered(theirs[name], KEYS[name], numbers)
        our_keys = set(_keys(ours[name], KEYS[name]))
        rows = rows.filter(pa.array([key not in our_keys for key in _keys(rows, KEYS[name])], pa.bool_()))
        done.rows[name] = len(rows)
        if len(rows):
            target.create()
            PartFolder(target.storage.at(name), ALL_TABLES[name]).append_table(rows)
        if name not in UNOWNED:
            touched |= set(_keys(rows, PAIR))
    done.attempts, done.plans = len(touched), _add_plans(source.storage, target)
    return done


def _tables(storage: Storage) -> dict[str, pa.Table]:
    """All rows, one per key, as readers use them."""
    contents = read_contents(proven_reads(storage)).items()
    return {name: latest(_intact(storage, name, table), KEYS[name]) for name, table in contents}


def _intact(storage: Storage, name: str, table: TableContents) -> pa.Table:
    for part in table.broken:
        way_out = "Upgrade permafrost-sweeps." if part.newer else "Run `permafrost store repair` on it first."
        raise StoreError(f"{storage}/{name}/{part.name}: {part.wrong}. {way_out}")
    if wrong := unusable(table.rows):
        raise StoreError(f"{storage}/{name}: {wrong}. Run `permafrost store repair` on it first.")
    return table.rows


def _trials(tables: Mapping[str, pa.Table]) -> dict[str, AttemptDigests]:
    """The digests of the rows of each attempt of each trial."""
    by_trial: dict[str, dict[int, set[bytes]]] = {}
    for name in ("epochs", "trials"):
        rows = tables[name]
        for (trial_id, attempt), row in zip(_keys(rows, PAIR), rows.drop_columns(["attempt"]).to_pylist(), strict=True):
            digest = hashlib.sha256(f"{name} {row!r}".encode()).digest()
            by_trial.setdefault(trial_id, {}).setdefault(attempt, set()).add(digest)
    return {i: {attempt: frozenset(digests) for attempt, digests in of.items()} for i, of in by_trial.items()}


def _completed(tables: Mapping[str, pa.Table]) -> dict[str, set[int]]:
    """The completed attempts of each trial that has any."""
    completed: dict[str, set[int]] = {}
    for trial_id, attempt, state in _keys(tables["trials"], (*PAIR, "state")):
        if state == State.COMPLETED:
            completed.setdefault(trial_id, set()).add(attempt)
    return completed


def _numbers(
    theirs: AttemptDigests, ours: AttemptDigests, their_completed: set[int], our_completed: set[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """The new number of each attempt; and for each that is not copied, the number of our attempt in its stead."""
    given = _merged_before(theirs, ours)
    own = ours.keys() - set(given.values())
    complete = own & our_completed
    left_out = {a: max(complete) for a in theirs.keys() - given.keys() if complete and a in their_completed}
    # Depends only on our own attempts and their order, so that repeating a killed merge gives the same numbers.
    top, bottom, used = max(own, default=0), min({1, *own}), {*ours}
    for attempt in sorted(theirs.keys() - left_out.keys()):
        if attempt not in given:
            number = bottom - 1 if complete else max(attempt, top + 1)
            while number in used:
                number += -1 if complete else 1
            given[attempt] = number
            used.add(number)
        top, bottom = max(top, given[attempt]), min(bottom, given[attempt])
    return given, left_out


def _merged_before(theirs: AttemptDigests, ours: AttemptDigests) -> dict[int, int]:
    """The number here of each attempt whose rows equal, are part of, or extend those of one of ours."""
    given, left = dict[int, int](), dict(ours)
    for fits in (frozenset.__eq__, frozenset.__le__, frozenset.__gt__):  # the last: left by a killed merge
        for attempt in sorted(theirs.keys() - given.keys()):
            number = next((n for n in sorted(left) if fits(theirs[attempt], left[n])), None)
            if number is not None:
                given[attempt] = number
                del left[number]
    return given


def _renumbered(rows: pa.Table, keys: Sequence[str], numbers: Mapping[Pair, int]) -> pa.Table:
    """The rows of these attempts under their new numbers, in the order of the keys."""
    rows = rows.sort_by([(name, "ascending") for name in keys])
    at = rows.schema.get_field_index("attempt")
    new = pa.array([numbers.get(pair) for pair in _keys(rows, PAIR)], rows.schema.field(at).type)
    return rows.set_column(at, rows.schema.field(at), [new]).filter(new.is_valid())


def _differing(
    theirs: Mapping[str, pa.Table], ours: Mapping[str, pa.Table], kept: Mapping[Pair, int]
) -> dict[str, str]:
    """The first number of each trial that differs between their attempt and ours."""
    differences: dict[str, str] = {}
    same = {(trial_id, number): number for (trial_id, _), number in kept.items()}
    for name in ("trials", "epochs"):
        own = _renumbered(ours[name], KEYS[name], same)
        mine = dict(zip(_keys(own, KEYS[name]), own.to_pylist(), strict=True))
        for row in _renumbered(theirs[name], KEYS[name], kept).to_pylist():
            other = mine.get(tuple(row[key] for key in KEYS[name]))
            columns = [c for c in COMPUTED[name] if other is None or repr(other[c]) != repr(row[c])]
            if columns:
                where = "".join(f" at {key} {row[key]}" for key in KEYS[name] if key not in PAIR)
                value = "nothing" if other is None else repr(other[columns[0]])
                difference = f"{columns[0]}{where}: {value} was kept, {row[columns[0]]!r} was not copied"
                differences.setdefault(row["trial_id"], difference)
    return differences


def _keys(rows: pa.Table, names: Sequence[str]) -> list[Any]:
    """The values of these columns in each row."""
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True))


def _add_weights(source: Storage, target: ResultStore, trial_ids: set[str]) -> None:
    """Copy the weights of trials that complete by this merge; of others the target's own attempt counts."""
    folder = target.storage.at(WEIGHTS)
    there = folder.files()
    for trial_id, names in weights_of(source).items():
        for name in names:
            if trial_id in trial_ids and name not in there:
                target.create()
                _copy(source.at(WEIGHTS), folder, name)


def _copy(source: Storage, target: Storage, name: str) -> None:
    """Copy an object. Raises StoreError: it is not what the digest in its name says; it may be a link to anything."""
    content = proven_reads(source).read(name)
    if not is_intact(name, content):
        raise StoreError(f"{source}/{name}: {WRONG_DIGEST}. Run `permafrost store repair` on that store first.")
    target.write(name, content)


def _add_plans(source: Storage, target: ResultStore) -> int:
    """Copy the plans that are missing, whose names contain time and digest, and the decisions."""
    n = 0
    for sweep in source.at(SWEEPS).folders():
        theirs, ours = source.at(SWEEPS).at(sweep), target.storage.at(SWEEPS).at(sweep)
        there = ours.files()
        for name in theirs.files():
            if name not in there and is_plan(name):
                target.create()
                _copy(theirs, ours, name)
                n += 1
        if decided := recorded(theirs):
            join_decisions(ours, alone=True, others=decided)
    return n

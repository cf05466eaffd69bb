"""Two stores become one: nothing is lost, nothing is there twice, and a kill in between changes nothing."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.extras.store_care.check import check_store
from orchestrator.extras.store_care.merge import Merged, merge
from orchestrator.extras.store_care.table_export import Format, almost_dominates, export, export_store
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.contents import READ_ORDER, SweepPlan, latest, planned_specs, read_contents, repeated
from orchestrator.store.schema import EPOCHS, KEYS
from tests.builders import make_spec
from tests.examples import examples
from tests.lab.calibration.decisions import BASELINE
from tests.lab.calibration.stores import write
from tests.lab.calibration.worlds import WORLDS
from tests.orchestrator.extras.store_care.test_repair import spoil
from tests.orchestrator.store.killed_storage import Killed
from tests.orchestrator.store.rows import TIME, complete, epoch, plan_of, prediction, tag, trial
from tests.orchestrator.store.test_parts import Small
from trials.errors import RefusedError, StoreError
from trials.spec import TrialSpec

FIRST, SECOND = (make_spec(seed=seed, data={"sizes": (200, 2, 2)}, optim={"epochs": 2}) for seed in range(2))


@pytest.fixture
def ours(storage: Storage) -> ResultStore:
    return open_store(storage.address, must_exist=False)


@pytest.fixture
def theirs(tmp_path: Path) -> ResultStore:
    return open_store(tmp_path / "theirs", must_exist=False)


def rows(store: ResultStore, table: str) -> list[dict[str, Any]]:
    found = read_contents(store.storage)[table].rows
    return list(latest(found, KEYS[table]).to_pylist())


def states(store: ResultStore) -> dict[str, str]:
    return {row["trial_id"]: row["state"] for row in store.trials().to_pylist()}


def test_into_an_empty_store_everything_comes_as_it_is(ours: ResultStore, theirs: ResultStore) -> None:
    complete(theirs, FIRST, 3)
    complete(theirs, SECOND)
    theirs.add_plan(plan_of(FIRST))
    done = merge(theirs, ours)
    assert (done.attempts, done.plans, done.differing) == (2, 1, {})
    again = open_store(ours.address)
    for table in READ_ORDER:
        assert sorted(map(repr, rows(again, table))) == sorted(map(repr, rows(theirs, table)))
    assert again.sweeps() == theirs.sweeps()
    assert check_store(again.storage).ok


def test_what_was_merged_once_is_not_merged_again(ours: ResultStore, theirs: ResultStore) -> None:
    complete(ours, FIRST, time=TIME)
    complete(theirs, SECOND)
    theirs.append("epochs", [epoch(FIRST.trial_id, 1, step=13, time=TIME + timedelta(1))])
    theirs.add_plan(SweepPlan("tiny", 1.0, "tiny.yaml", ()))
    merge(theirs, ours)
    assert merge(theirs, ours) == Merged(dict.fromkeys(reversed(READ_ORDER), 0))
    theirs.compact()
    ours.compact()
    assert merge(theirs, ours).attempts == 0


def test_attempts_of_one_number_get_numbers_of_their_own(ours: ResultStore, theirs: ResultStore) -> None:
    ours.append("trials", [trial("a", 1, "failed")])
    theirs.append("trials", [trial("a", 1, "lost", time=TIME + timedelta(1))])
    theirs.append("trials", [trial("a", 2, time=TIME + timedelta(2))])
    merge(theirs, ours)
    assert [(row["attempt"], row["state"]) for row in rows(ours, "trials")] == [
        (1, "failed"), (2, "lost"), (3, "completed"),
    ]  # fmt: skip


def test_a_trial_that_both_have_complete_is_kept_once_and_as_ours(ours: ResultStore, theirs: ResultStore) -> None:
    complete(ours, FIRST, train_s=1.0)
    complete(theirs, FIRST, train_s=2.0)
    done = merge(theirs, ours)
    assert (done.kept, done.differing, done.attempts) == ([FIRST.trial_id], {}, 0)
    assert ours.trials()["train_s"].to_pylist() == [1.0]


def test_unfinished_attempts_do_not_hide_a_trial_that_is_complete(ours: ResultStore, theirs: ResultStore) -> None:
    complete(ours, FIRST)
    for attempt in (1, 2):
        theirs.append("epochs", [epoch(FIRST.trial_id, attempt, step=13, time=TIME + timedelta(attempt))])
        theirs.append("trials", [trial(FIRST.trial_id, attempt, "lost", spec=FIRST.model_dump_json())])
    merge(theirs, ours)
    assert sorted(row["attempt"] for row in rows(ours, "trials")) == [-1, 0, 1]
    assert states(ours) == {FIRST.trial_id: "completed"}
    assert check_store(ours.storage).ok


def test_an_attempt_that_went_on_in_a_copy_of_the_store_is_one_attempt(ours: ResultStore, theirs: ResultStore) -> None:
    for store in (ours, theirs):
        store.append("epochs", [epoch(FIRST.trial_id, 1, step=13, score=1 / 16)])
    complete(theirs, FIRST, 2)
    merge(theirs, ours)
    assert states(ours) == {FIRST.trial_id: "completed"}
    assert merge(theirs, ours).attempts == 0
    assert check_store(ours.storage).ok


def test_rows_that_are_lost_here_come_back(ours: ResultStore, theirs: ResultStore) -> None:
    complete(theirs, FIRST)
    merge(theirs, ours)
    folder = ours.storage.at("tags")
    for name in folder.files():
        folder.delete(name)
    assert not check_store(ours.storage).ok
    assert merge(theirs, ours).rows["tags"] == 4
    assert check_store(ours.storage).ok


def test_a_broken_store_is_neither_read_nor_added_to(ours: ResultStore, theirs: ResultStore) -> None:
    for store in (ours, theirs):
        complete(store, FIRST)
        spoil(store.storage, "tags")
        with pytest.raises(StoreError, match=r"Run `permafrost store repair` on it first\."):
            merge(theirs, ours)
    assert len(ours.storage.at("trials").files()) == 1


# --- Any two stores


@dataclass(frozen=True)
class Try:
    """An attempt: when it began, how many evaluations it made, and how it ended, if it did."""

    began: int
    evaluations: int
    state: str | None

    def append_to(self, store: ResultStore, trial_id: str, attempt: int) -> None:
        time = TIME + timedelta(days=self.began)
        times = [time + timedelta(hours=n) for n in range(self.evaluations)]
        store.append("epochs", [epoch(trial_id, attempt, step=n, time=at) for n, at in enumerate(times)])
        if self.state and self.evaluations:
            store.append("tags", [tag(trial_id, attempt, support=self.began)])
            store.append("predictions", [prediction(trial_id, attempt)])
        if self.state:
            store.append("trials", [trial(trial_id, attempt, self.state, time=time, seed=self.began)])


TRIES = st.builds(Try, st.integers(0, 5), st.integers(0, 2), st.sampled_from([None, "lost", "failed", "completed"]))
# An attempt that left nothing is none, and none comes after a completed one.
HISTORY = st.lists(TRIES.filter(lambda one: one.evaluations or one.state), max_size=4, unique_by=lambda one: one.began)
STORES = st.dictionaries(st.sampled_from("ab"), HISTORY.map(lambda tries: until_completed(tries)), max_size=2)


def until_completed(tries: list[Try]) -> list[Try]:
    done = [n for n, one in enumerate(tries) if one.state == "completed"]
    return tries[: done[0] + 1] if done else tries


@contextmanager
def folders() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def made(folder: Path, histories: dict[str, list[Try]]) -> ResultStore:
    store = ResultStore(folder)
    for trial_id, tries in histories.items():
        for attempt, one in enumerate(tries, 1):
            one.append_to(store, trial_id, attempt)
    return store


Deed = tuple[str, frozenset[str]]


def deeds(store: ResultStore) -> Counter[Deed]:
    """What attempts did, whatever their numbers are."""
    found: dict[tuple[str, int], set[str]] = {}
    for table in ("trials", "epochs"):
        for row in rows(store, table):
            found.setdefault((row["trial_id"], row.pop("attempt")), set()).add(repr(row))
    return Counter((trial_id, frozenset(did)) for (trial_id, _), did in found.items())


@given(STORES, STORES)
def test_a_merge_loses_nothing_and_doubles_nothing(a: dict[str, list[Try]], b: dict[str, list[Try]]) -> None:
    with folders() as folder:
        theirs, ours = made(folder / "theirs", a), made(folder / "ours", b)
        before, complete_here = deeds(ours), set(ours.completed_ids())
        done = merge(theirs, ours)
        after = deeds(ours)
        wanted = {did for did in deeds(theirs) if not (did[0] in done.kept and "'completed'" in str(did[1]))}
        # Each is there, perhaps with what followed on it.
        assert all(any(i == j and did <= other for j, other in after) for i, did in wanted | set(before))
        assert ours.completed_ids() == complete_here | theirs.completed_ids()
        assert {i for i, state in states(ours).items() if state == "completed"} == ours.completed_ids()
        assert merge(theirs, ours).attempts == 0


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(STORES, STORES)
def test_a_merge_killed_at_any_moment_and_repeated_comes_to_the_same(
    a: dict[str, list[Try]], b: dict[str, list[Try]]
) -> None:
    with folders() as folder:
        theirs = made(folder / "theirs", a)
        made(folder / "ours", b)
        (folder / "ours").mkdir(exist_ok=True)
        whole = Path(shutil.copytree(folder / "ours", folder / "whole"))
        merge(theirs, ResultStore(whole))
        for left in itertools.count():
            copy = Path(shutil.copytree(folder / "ours", folder / f"copy{left}"))
            try:
                merge(theirs, ResultStore(Killed(copy, [left])))
                break
            except KeyboardInterrupt:
                merge(theirs, ResultStore(copy))
            for table in READ_ORDER:
                assert everything(ResultStore(copy), table) == everything(ResultStore(whole), table)


def everything(store: ResultStore, table: str) -> list[str]:
    return sorted(map(repr, rows(store, table)))


class KilledSmall(Small, Killed):
    """The same, where objects may not be large, so that a table comes in several."""

    def at(self, name: str) -> KilledSmall:
        return KilledSmall(self.folder / name, self._left)


@pytest.mark.slow  # a merge killed at any moment is tested above
def test_a_merge_killed_between_two_objects_of_one_table_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = [Try(n, 60, "lost" if n % 2 else None) for n in range(6)]
    theirs = made(tmp_path / "theirs", {"a": tries})
    made(tmp_path / "ours", {"a": [Try(9, 1, "completed")]})
    one_row = max((tmp_path / "ours" / "epochs").glob("part-*"), key=lambda part: part.stat().st_size)
    monkeypatch.setattr(KilledSmall, "largest_bytes", one_row.stat().st_size + 650)  # about a hundred rows
    shutil.copytree(tmp_path / "ours", tmp_path / "whole")
    merge(theirs, ResultStore(KilledSmall(tmp_path / "whole", [10**9])))
    assert len(FolderStorage(tmp_path / "whole").at("epochs").files()) > 2
    for left in range(0, 8, 8 // examples(8)):
        copy = Path(shutil.copytree(tmp_path / "ours", tmp_path / str(left)))
        with pytest.raises(KeyboardInterrupt):
            merge(theirs, ResultStore(KilledSmall(copy, [left])))
        merge(theirs, ResultStore(KilledSmall(copy, [10**9])))
        for table in READ_ORDER:
            assert everything(ResultStore(copy), table) == everything(ResultStore(tmp_path / "whole"), table)


# --- Rows that stand twice

NUMBERED = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 2), st.integers(1, 2)), max_size=12)


@given(NUMBERED)
def test_of_rows_under_one_key_the_later_is_taken(keys: list[tuple[str, int, int]]) -> None:
    table = pa.Table.from_pylist(
        [epoch(i, attempt, step, score=float(n)) for n, (i, attempt, step) in enumerate(keys)], schema=EPOCHS
    )
    wanted = {key: float(n) for n, key in enumerate(keys)}
    found = latest(table, KEYS["epochs"]).to_pylist()
    assert {(row["trial_id"], row["attempt"], row["step"]): row["score"] for row in found} == wanted
    assert len(found) == len(wanted)
    counts = Counter(keys)
    assert sorted(len(at) for at in repeated(table, KEYS["epochs"])) == sorted(n for n in counts.values() if n > 1)


# --- A store to give away: the same results, and nothing of the machine.


HERE = "/home/somebody/secret"


@pytest.fixture
def specs() -> list[TrialSpec]:
    files = {"train": (f"{HERE}/bank/train.conllu",), "dev": (f"{HERE}/bank/dev.conllu",)}
    return [make_spec(seed=seed, data=files, model={"path": f"{HERE}/models/tiny"}) for seed in range(3)]


@pytest.fixture
def store(tmp_path: Path, specs: list[TrialSpec]) -> ResultStore:
    """Two trials that completed, one of them at its second attempt, and one that has only begun."""
    store = open_store(tmp_path / "results", must_exist=False)
    for attempt, spec in enumerate(specs[:2], start=1):
        complete(store, spec, attempt)
    store.append("epochs", [epoch(specs[2].trial_id)])
    planned = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in specs)
    store.add_plan(SweepPlan("mine", 1.0, f"{HERE}/sweeps/mine.yaml", planned))
    return store


def test_a_copy_is_intact_and_says_the_same_without_a_folder_of_the_machine(
    store: ResultStore, specs: list[TrialSpec], tmp_path: Path
) -> None:
    export_store(store, tmp_path / "copy")
    copy = open_store(tmp_path / "copy")
    assert not check_store(str(copy.root)).findings
    plan = copy.sweeps()[0]
    assert [spec.trial_id for spec in planned_specs(plan)] == [spec.trial_id for spec in specs]
    for table in ("trials", "epochs", "tags", "predictions", "contributions"):
        rows, theirs = (getattr(each, table)().to_pylist() for each in (copy, store))
        ended = [row for row in theirs if row["trial_id"] != specs[2].trial_id]
        assert [row | {"spec": ""} for row in rows] == [row | {"spec": ""} for row in ended]
    assert not [path for path in copy.root.rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert (plan.source, planned_specs(plan)[0].data.dev) == ("sweeps/mine.yaml", ("bank/dev.conllu",))
    assert {row["trial_id"] for row in copy.epochs().to_pylist()} == {spec.trial_id for spec in specs[:2]}


def test_exported_tables_have_the_losses_of_each_sweep_with_their_almost_stochastic_order(tmp_path: Path) -> None:
    losses = WORLDS["mixed"].draw(np.random.default_rng(0), 1, 6).losses
    store, specs = write(tmp_path, losses)
    store.add_plan(plan_of(*specs, name="mine"))
    export(store, tmp_path / "out", Format.PARQUET)
    (row,) = pq.read_table(tmp_path / "out" / "losses.parquet").to_pylist()
    assert (row["sweep"], row["freeze"], row["n_pairs"]) == ("mine", "first 2", 6)
    assert row["loss"] == pytest.approx(losses.mean(), abs=1e-7)
    assert row["low"] < row["loss"] < row["high"]
    same = BASELINE - np.zeros(6)
    assert row["aso"] == almost_dominates(same, BASELINE - losses[0, 0].mean(axis=1))


def test_a_folder_that_holds_something_is_not_written_to(store: ResultStore, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis").write_text("mine")
    with pytest.raises(RefusedError, match="is not empty"):
        export_store(store, tmp_path / "full")

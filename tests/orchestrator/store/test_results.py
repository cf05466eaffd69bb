"""A store: the newest attempts without duplicates, plans that are kept, and folders that are none."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import Suggestion, SweepPlan
from orchestrator.store.results import MARKER
from orchestrator.store.schema import SCHEMA_VERSION, TABLES
from tests.builders import SPEC, make_spec
from tests.examples import each
from tests.orchestrator.store.rows import complete, epoch, prediction, tag, trial
from trials.errors import StoreError

Rows = list[dict[str, Any]]


@pytest.fixture
def store(storage: Storage) -> ResultStore:
    return open_store(storage.address, must_exist=False)


@pytest.fixture
def local_store(local_storage: FolderStorage) -> ResultStore:
    return open_store(local_storage.address, must_exist=False)


@each("seed", [-1, 2**32, 1.5, "one", None])
def test_of_a_setting_that_is_known_the_seed_is_checked_all_the_same(seed: object) -> None:
    stored = make_spec(seed=3).model_dump(mode="json")
    good = SweepPlan("tiny", 1.0, "tiny.yaml", tuple((str(n), stored | {"seed": n}) for n in range(3)))
    assert good.specs == tuple(make_spec(seed=n) for n in range(3))
    with pytest.raises(StoreError, match="seed"):
        _ = replace(good, trials=(*good.trials, ("x", stored | {"seed": seed}))).specs


def plan(name: str = "tiny", *trial_ids: str, time: float = 1.0) -> SweepPlan:
    return SweepPlan(name, time, "tiny.yaml", tuple((trial_id, {"seed": 0, "layers": [0]}) for trial_id in trial_ids))


# --- Reading back


def test_trials_have_the_freeze_that_tables_show(local_store: ResultStore) -> None:
    freezes: dict[str, dict[str, Any]] = {
        "none": {},
        "embeddings": {"embeddings": True},
        "first 2": {"strategy": "first_k", "layers": (0, 1)},
    }
    specs = [make_spec(freeze=SPEC["freeze"] | freeze) for freeze in freezes.values()]
    for spec in specs:
        complete(local_store, spec)
    local_store.append("trials", [trial("broken", 1, "failed")])
    found = zip(*(local_store.trials()[name].to_pylist() for name in ("trial_id", "freeze")), strict=True)
    assert dict(found) == {spec.trial_id: label for spec, label in zip(specs, freezes, strict=True)} | {"broken": None}
    assert local_store.trials(["freeze"]).column_names == ["trial_id", "attempt", "freeze"]


def test_only_completed_trials_need_not_run_again_and_attempts_count_those_that_left_only_epochs(
    store: ResultStore,
) -> None:
    states = ("completed", "pruned", "diverged", "out_of_memory", "failed")
    store.append("trials", [trial(state, state=state) for state in states])
    store.append("epochs", [epoch("completed", 1), epoch("failed", 3), epoch("c", 2)])
    assert store.completed_ids() == {"completed"}
    assert store.attempts() == dict.fromkeys(states, 1) | {"failed": 3, "c": 2}


def test_tags_and_predictions_are_those_of_the_attempt_that_ended(store: ResultStore) -> None:
    for attempt in (1, 2):
        store.append("tags", [tag(attempt=attempt, support=attempt)])
        store.append("predictions", [prediction(attempt=attempt)])
    store.append("trials", [trial(attempt=1)])
    assert store.tags()["support"].to_pylist() == [1]
    assert store.predictions("a")["attempt"].to_pylist() == [1]


@given(st.integers(0, 2**64 - 1), st.integers(1, 200))
def test_rows_come_in_order_whatever_the_trials_id_is(number: int, n: int) -> None:
    trial_id = f"{number:016x}"
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder))
        store.append("epochs", [epoch(trial_id, step=step) for step in range(n)])
        store.append("predictions", [prediction(i, sentence=s) for i in ("b", trial_id) for s in reversed(range(n))])
        assert store.epochs()["step"].to_pylist() == list(range(n))
        assert store.predictions(trial_id)["sentence"].to_pylist() == list(range(n))


# --- Compaction and kills


def snapshot(store: ResultStore) -> list[Rows]:
    predictions = (store.predictions("a"), store.predictions("b"))
    tables = (store.epochs(), store.trials(), store.tags(), *predictions)
    return [table.to_pylist() for table in tables]


def filled(store: ResultStore) -> ResultStore:
    for attempt in (1, 2, 3):
        store.append("epochs", [epoch("a", attempt, step=1), epoch("b", 1, step=attempt)])
        store.append("trials", [trial("a", attempt, "failed")])
        store.append("tags", [tag("a", attempt), tag("b", 1, name=f"T{attempt}")])
        store.append("predictions", [prediction("a", attempt), prediction("b", 1, sentence=attempt)])
        split = {"trial_id": "a", "attempt": attempt, "split": "dev", "values": [0.5]}
        store.append("contributions", [split])
    return store


def test_compaction_changes_nothing_that_is_read_and_a_kill_in_its_middle_gives_no_duplicates(
    store: ResultStore,
) -> None:
    before = snapshot(filled(store))
    folders = [store.storage.subfolder(table) for table in TABLES]
    old = [(folder, name, folder.read(name)) for folder in folders for name in folder.files()]
    store.compact()
    for folder, name, content in old:  # not yet taken away
        folder.write(name, content)
    assert len(store.storage.subfolder("epochs").files()) == 4
    assert snapshot(store) == before
    store.compact()
    assert snapshot(store) == before
    assert [len(store.storage.subfolder(table).files()) for table in TABLES] == [1] * len(TABLES)


Key = tuple[str, int, int]
KEYS = st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(1, 3))
BATCHES = st.lists(st.tuples(st.lists(KEYS, max_size=6), st.lists(KEYS, max_size=3), st.booleans()), max_size=5)


@given(BATCHES)
def test_whatever_is_written_and_compacted_the_newest_attempts_are_read(
    batches: list[tuple[list[Key], list[Key], bool]],
) -> None:
    all_epochs, all_trials = dict[Key, float](), dict[tuple[str, int], int]()
    with tempfile.TemporaryDirectory() as folder:
        store = ResultStore(Path(folder))
        for number, (epoch_keys, trial_keys, compact) in enumerate(batches):
            store.append("epochs", [epoch(i, a, s, score=float(number)) for i, a, s in epoch_keys])
            store.append("trials", [trial(i, a, seed=seed) for i, a, seed in trial_keys])
            all_epochs |= dict.fromkeys(epoch_keys, float(number))
            all_trials |= {(i, a): seed for i, a, seed in trial_keys}
            if compact:
                store.compact()
        ended = {i: max(a for j, a in all_trials if j == i) for i, _ in all_trials}
        shown = {i: max(a for j, a, _ in all_epochs if j == i) for i, _, _ in all_epochs} | ended
        found = [(r["trial_id"], r["attempt"], r["step"], r["score"]) for r in store.epochs().to_pylist()]
        assert found == sorted((i, a, s, score) for (i, a, s), score in all_epochs.items() if shown[i] == a)
        rows = [(r["trial_id"], r["attempt"], r["seed"]) for r in store.trials().to_pylist()]
        assert rows == [(i, a, all_trials[i, a]) for i, a in sorted(ended.items())]


# --- Plans


def test_plans_read_back_the_oldest_first_another_beside_the_old_one_and_the_same_not_twice(store: ResultStore) -> None:
    for declared in (plan("b", "x", time=1.0), plan("a", "a", "b", time=2.0), plan("a", "a", "b", time=3.0)):
        store.add_plan(declared)
    files = store.storage.subfolder("sweeps").subfolder("a")
    assert open_store(store.address).sweeps() == [plan("b", "x", time=1.0), plan("a", "a", "b", time=2.0)]
    assert len(files.files()) == 1
    store.add_plan(plan("a", "a", time=4.0))
    assert (len(files.files()), store.sweeps()[-1]) == (2, plan("a", "a", time=4.0))


def test_the_newest_plan_stays_the_newest_when_the_clock_is_set_back(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_plan(plan("tiny", "a", time=100.0))
    store.add_plan(plan("other", "a", time=200.0))
    monkeypatch.setattr("time.time_ns", lambda: 10**9)  # 1970
    store.add_plan(plan("tiny", "a", "b", time=1.0))
    store.extend_plan(replace(plan("tiny", "c", time=1.0), suggestions=(Suggestion(0, {"lr": 0.5}),)))
    newest = store.sweeps()[-1]
    assert (newest.name, [trial_id for trial_id, _ in newest.trials]) == ("tiny", ["a", "b", "c"])
    store.add_plan(plan("other", "b", time=1.0))
    assert [found.name for found in store.sweeps()] == ["tiny", "other"]


def test_suggestions_are_rows_of_the_plan_which_is_replaced_and_read_while_it_is(store: ResultStore) -> None:
    store.add_plan(plan("s", "a"))
    read, is_over = list[int](), threading.Event()

    def follow() -> None:
        while not is_over.is_set():
            read.append(len(open_store(store.address).sweeps()[0].trials))

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        for n in range(20):
            store.extend_plan(replace(plan("s", f"t{n}"), suggestions=(Suggestion(n, {"lr": 0.5, "depth": n}),)))
        is_over.set()
        following.result()
    assert read == sorted(read)
    assert store.suggestions("s") == tuple(Suggestion(n, {"lr": 0.5, "depth": n}) for n in range(20))
    assert [trial_id for trial_id, _ in store.sweeps()[0].trials] == ["a", *(f"t{n}" for n in range(20))]
    assert len(store.storage.subfolder("sweeps").subfolder("s").files()) == 1
    store.add_plan(store.sweeps()[0])
    assert len(store.storage.subfolder("sweeps").subfolder("s").files()) == 1


@pytest.mark.parametrize("content", [b"{", b'{"name": "a", "time": 1, "source": "", "trials": [1]}', b"\xff"])
def test_a_broken_plan_is_left_out_and_the_next_launch_writes_it_again(
    local_store: ResultStore, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    local_store.add_plan(plan("tiny", "a"))
    local_store.add_plan(plan("tiny", "a", "b", time=2.0))
    path = max((local_store.root / "sweeps" / "tiny").iterdir())
    path.write_bytes(content)
    assert local_store.sweeps() == [plan("tiny", "a")]
    assert caplog.messages[0].startswith(f"{path}: not a readable plan (")
    local_store.add_plan(plan("tiny", "a", "b", time=3.0))
    assert local_store.sweeps() == [plan("tiny", "a", "b", time=3.0)]


# --- What is no store


def refusal(path: Path, *, must_exist: bool = True) -> str:
    with pytest.raises(StoreError) as error:
        open_store(path, must_exist=must_exist)
    assert error.value.exit_code == 3
    return str(error.value)


def test_reading_asks_for_a_store_that_is_there_and_something_else_is_always_refused(tmp_path: Path) -> None:
    rule = "no store there. Run a sweep first, or give its folder with --store."
    assert refusal(tmp_path) == f"{tmp_path}: {rule}"
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: {rule}"
    (tmp_path / "thesis.tex").touch()
    other = "contains something other than a Permafrost store. Give another folder with --store."
    assert {refusal(tmp_path, must_exist=must) for must in (True, False)} == {f"{tmp_path}: {other}"}
    assert refusal(tmp_path / "thesis.tex", must_exist=False) == f"{tmp_path / 'thesis.tex'}: {other}"


@each(
    "content, said, way_out",
    [
        *((content, "not the marker of a Permafrost store (", "Give another folder.")
          for content in (b"{", b"[]", b"\xff", b'{"format": "x"}')),
        (b'{"format": "redux", "schema_version": 1}', "says format 'redux', not 'permafrost-store'", "other folder."),
        (b'{"format": "permafrost-store", "schema_version": 99}', "a store of a newer version (schema 99, this one "
         f"reads up to {SCHEMA_VERSION}", "Upgrade permafrost-sweeps."),
    ],
)  # fmt: skip
def test_a_mark_that_this_version_cannot_read_is_refused_with_the_way_out(
    tmp_path: Path, content: bytes, said: str, way_out: str
) -> None:
    (tmp_path / MARKER).write_bytes(content)
    for must_exist in (True, False):
        message = refusal(tmp_path, must_exist=must_exist)
        assert said in message
        assert message.startswith(f"{tmp_path / MARKER}: ")
        assert message.endswith(way_out)


@pytest.mark.parametrize("content", [None, b"{", b'{"format": "x", "schema_version": 1}'])
def test_a_store_whose_mark_is_lost_or_broken_is_read_and_gets_it_back_with_the_next_row(
    local_store: ResultStore, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    local_store.append("epochs", [epoch()])
    marker = local_store.root / MARKER
    whole = marker.read_bytes()
    marker.unlink() if content is None else marker.write_bytes(content)
    opened = open_store(local_store.root)
    assert len(opened.epochs()) == 1
    assert caplog.messages[0].startswith(f"{marker}: ")
    opened.append("epochs", [epoch(step=2)])
    assert marker.read_bytes() == whole


UNUSABLE: list[tuple[str, dict[str, Any], str]] = [
    ("trials", {"trial_id": None}, "1 rows have no trial_id"),
    ("trials", {"state": "half"}, "'half' is not a state"),
    ("epochs", {"step": None}, "1 rows have no step"),
]


@pytest.mark.parametrize(("table", "change", "wrong"), UNUSABLE)
def test_a_row_that_no_reader_can_use_makes_its_part_a_broken_one(
    local_store: ResultStore, table: str, change: dict[str, Any], wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = local_store
    store.append("epochs", [epoch()])
    store.append("trials", [trial(state="failed")])
    store.append(table, [(epoch if table == "epochs" else trial)("b") | change])
    assert [row["trial_id"] for row in getattr(store, table)().to_pylist()] == ["a"]
    assert f"{wrong}. It is left out" in caplog.messages[0]


# --- Trials that lost rows


def test_a_completed_trial_that_lost_rows_runs_again_and_is_in_no_answer_until_then(
    store: ResultStore, caplog: pytest.LogCaptureFixture
) -> None:
    specs = [make_spec(seed=seed) for seed in range(4)]
    for spec, lost in zip(specs, ("epochs", "contributions", "predictions", "commits"), strict=True):
        complete(store, spec, without=[lost])
    assert store.completed_ids() == {specs[2].trial_id, specs[3].trial_id}
    assert f": 2 completed trials, {min(spec.trial_id for spec in specs[:2])} among them, have lost" in caplog.text
    states = store.evidence(specs).frame.set_index("trial_id")["state"]
    assert [states[spec.trial_id] == "completed" for spec in specs] == [True, False, True, True]
    complete(store, specs[0], 2)
    assert specs[0].trial_id in store.completed_ids()

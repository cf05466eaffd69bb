"""Decisions of a search: each made once and followed by all, in few objects, whoever writes, joins or is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore
from orchestrator.store.decisions import (
    NO_TRIALS,
    Choice,
    DecisionLog,
    Promoted,
    Stopped,
    Suggested,
    join_decisions,
    newest_plan,
    recorded,
    suggested,
)
from orchestrator.store.schema import stamped
from orchestrator.store.sweep_plans import SweepPlan, write_plan
from tests.orchestrator.store.killed_storage import Killed
from tests.s3_faults import Faults
from tests.s3_server import ENVIRONMENT, S3Process


def cell(number: int) -> SweepPlan:
    return SweepPlan("search", float(number), "search.yaml", ((f"t{number}", {"seed": number}),))


def catch_up(log: DecisionLog) -> list[Choice]:
    return list(iter(lambda: log.following(look=True), None))


def add(log: DecisionLog, *numbers: int) -> None:
    """Suggest cells, after what others did."""
    for number in numbers:
        catch_up(log)
        log.make(Suggested(number, {"lr": 0.5}), cell(number))


def numbers(folder: Storage) -> list[int]:
    return [one.number for one in suggested(recorded(folder))]


def test_of_drivers_that_decide_at_once_one_does_and_the_others_follow(storage: Storage) -> None:
    logs = [DecisionLog(storage) for _ in range(3)]

    def run(n: int) -> list[Choice]:
        made = list[Choice]()
        for i in range(10):
            mine = Stopped(f"{n}-{i}")
            while not made or made[-1] != mine:
                made.append(logs[n].following() or logs[n].make(mine, NO_TRIALS))
        return made

    with ThreadPoolExecutor(3) as pool:
        sequences = [made + catch_up(log) for made, log in zip(list(pool.map(run, range(3))), logs, strict=True)]
    assert sequences[0] == sequences[1] == sequences[2] == [one.choice for one in recorded(storage)]
    assert len(set(sequences[0])) == len(sequences[0]) == 30


def test_every_kind_of_decision_is_read_as_it_was_made_from_either_kind_of_object(storage: Storage) -> None:
    log = DecisionLog(storage)
    choices: list[Choice] = [
        Suggested(3, {"lr": 0.5, "depth": 2}),
        Promoted("c", 1.5),
        Stopped("t3"),
        Promoted("c", 4.5),
    ]
    for choice in choices:
        assert log.make(choice, cell(3) if isinstance(choice, Suggested) else NO_TRIALS) == choice
    single = [one for one in storage.files() if one.startswith("decided-")]
    assert ([one.choice for one in recorded(storage, single)], len(single)) == (choices, 4)
    join_decisions(storage, alone=True)
    assert ([one.choice for one in recorded(storage)], len(storage.files())) == (choices, 1)
    assert catch_up(DecisionLog(storage)) == choices


def test_a_driver_whose_objects_were_joined_goes_on_and_a_late_one_decides_after_them(storage: Storage) -> None:
    log = DecisionLog(storage)
    add(log, *range(5))
    join_decisions(storage)
    add(log, 5)
    assert numbers(storage) == list(range(6))
    join_decisions(storage, alone=True)
    late = DecisionLog(storage)
    assert len(catch_up(late)) == 6
    add(late, 6)
    assert numbers(storage) == list(range(7))


def test_a_driver_killed_while_it_joins_leaves_each_decision_once(tmp_path: Path) -> None:
    for steps in range(4):
        folder = tmp_path / str(steps)
        log = DecisionLog(Killed(folder, [steps]))
        try:
            add(log, *range(12))
        except KeyboardInterrupt:
            found = numbers(FolderStorage(folder))
            assert found == list(range(len(found)))
            assert len(found) >= 4 * (steps // 2 + 1)


class Replacing(FolderStorage):
    """Another driver replaces what is listed before it is read."""

    def files(self, *names: str) -> dict[str, int]:
        found = super().files(*names)
        if len(found) == 2:
            join_decisions(FolderStorage(self.folder), alone=True)
        return found


def test_objects_that_are_replaced_while_they_are_read_are_listed_again(tmp_path: Path) -> None:
    add(DecisionLog(FolderStorage(tmp_path)), 0, 1)
    assert numbers(Replacing(tmp_path)) == [0, 1]


def test_a_store_with_an_object_a_suggestion_is_read_joined_and_gone_on_with(storage: Storage) -> None:
    for number in range(3):
        values = {"name": "search", "time": 1.0, "source": "s.yaml", "trials": [[f"t{number}", {}]]}
        content = json.dumps(values | {"number": number, "parameters": {"lr": 0.5}}).encode()
        storage.write(stamped("suggested", 10 + number, content, "json"), content)
    before = recorded(storage)
    join_decisions(storage)
    assert ([one.stamp_ns for one in before], recorded(storage)) == ([10, 11, 12], before)
    assert len(storage.files()) == 1
    add(DecisionLog(storage), 3)
    assert numbers(storage) == [0, 1, 2, 3]


def test_cells_are_planned_after_a_newer_plan_that_did_not_know_them_whatever_their_drivers_clock_says(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DecisionLog(storage)
    add(log, 0)
    write_plan(storage, SweepPlan("search", 1.0, "search.yaml", (("t0", {}),), decisions=1))
    monkeypatch.setattr("time.time_ns", lambda: 10**9)  # 1970
    add(log, 1)
    plan = newest_plan(storage)
    assert plan is not None
    assert [trial_id for trial_id, _ in plan.trials] == ["t0", "t1"]


@contextmanager
def on_s3(prefix: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[tuple[ResultStore, str, Faults]]:
    """A store with an empty search, its address where requests are counted, and who counts."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with S3Process(**options) as process, Faults(process.url) as counting:
        store = ResultStore(open_storage(process.address(prefix)))
        store.add_plan(SweepPlan("search", 1.0, "search.yaml", ()))
        yield store, process.address(prefix, counting.url), counting


def listings(counting: Faults) -> int:
    return sum(path.endswith(("/bucket", "/bucket/")) for _, path in counting.asked)


def test_a_store_on_s3_with_1000_suggestions_is_opened_with_two_listings_and_at_most_ten_requests(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_s3(prefix, monkeypatch) as (store, address, counting):
        log = store.decision_log("search")
        for number in range(1000):
            log.make(Suggested(number, {"lr": 0.5}), cell(number))
        plan = newest_plan(open_storage(address).at("sweeps").at("search"))
        assert plan is not None
        assert len(plan.trials) == 1000
        assert (listings(counting), len(counting.asked) <= 10) == (2, True)  # a page has 1,000 names

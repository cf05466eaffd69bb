"""Suggestions of a search: few objects, none lost or doubled, whoever writes, joins or is killed at the same time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore
from orchestrator.store.names import stamped
from orchestrator.store.plans import SweepPlan
from orchestrator.store.suggested import Suggested, SuggestionLog, join_suggestions, newest_plan, recorded
from tests.orchestrator.store.killed_storage import Killed
from tests.s3_faults import Faults
from tests.s3_server import ENVIRONMENT, S3Process
from trials.errors import StoreError


def cell(number: int) -> SweepPlan:
    return SweepPlan("search", float(number), "search.yaml", ((f"t{number}", {"seed": number}),))


def add(log: SuggestionLog, *numbers: int) -> None:
    for number in numbers:
        log.add(cell(number), Suggested(number, {"lr": 0.5}))


def numbers(folder: Storage) -> list[int]:
    return [one.suggested.number for one in recorded(folder)]


def test_suggestions_of_several_drivers_are_all_there_in_few_objects_and_joined_in_one(storage: Storage) -> None:
    logs = [SuggestionLog(storage) for _ in range(3)]
    for number in range(30):
        add(logs[number % 3], number)
    assert numbers(storage) == list(range(30))
    assert len(storage.files()) <= 3 * 3
    join_suggestions(storage)
    (joined,) = storage.files()
    join_suggestions(storage)
    assert (numbers(storage), [*storage.files()]) == (list(range(30)), [joined])


def test_a_driver_whose_objects_were_joined_goes_on(storage: Storage) -> None:
    log = SuggestionLog(storage)
    add(log, *range(5))
    join_suggestions(storage)
    add(log, 5)
    assert numbers(storage) == list(range(6))


def test_a_driver_killed_before_it_deletes_leaves_each_suggestion_once(tmp_path: Path) -> None:
    log = SuggestionLog(Killed(tmp_path, [2]))  # after it has written both
    add(log, 0)
    with pytest.raises(KeyboardInterrupt):
        add(log, 1)
    assert (numbers(FolderStorage(tmp_path)), len([*tmp_path.iterdir()])) == ([0, 1], 2)


class Replacing(FolderStorage):
    """Another driver replaces what is listed before it is read."""

    def files(self) -> dict[str, int]:
        found = super().files()
        if len(found) == 2:
            join_suggestions(FolderStorage(self.folder))
        return found


def test_objects_that_are_replaced_while_they_are_read_are_listed_again(tmp_path: Path) -> None:
    for number in range(2):
        add(SuggestionLog(FolderStorage(tmp_path)), number)
    assert numbers(Replacing(tmp_path)) == [0, 1]


def test_what_cannot_be_written_is_not_taken_for_written(tmp_path: Path) -> None:
    class Full(FolderStorage):
        is_full = False

        def write(self, name: str, content: bytes) -> None:
            if self.is_full:
                raise StoreError("full")
            super().write(name, content)

    folder = Full(tmp_path)
    log = SuggestionLog(folder)
    add(log, 0)
    folder.is_full = True
    with pytest.raises(StoreError, match="full"):
        add(log, 1)
    folder.is_full = False
    add(log, 1)
    assert numbers(folder) == [0, 1]


def test_a_store_with_an_object_a_suggestion_is_read_and_joined(storage: Storage) -> None:
    for number in range(3):
        values = {"name": "search", "time": 1.0, "source": "s.yaml", "trials": [[f"t{number}", {}]]}
        content = json.dumps(values | {"number": number, "parameters": {"lr": 0.5}}).encode()
        storage.write(stamped("suggested", 10 + number, content, "json"), content)
    before = recorded(storage)
    join_suggestions(storage)
    assert ([one.stamp_ns for one in before], recorded(storage)) == ([10, 11, 12], before)
    assert len(storage.files()) == 1


def test_a_store_on_s3_with_1000_suggestions_is_opened_with_one_listing_and_at_most_ten_requests(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with S3Process() as process, Faults(process.url) as counting:
        store = ResultStore(open_storage(process.address(prefix)))
        store.add_plan(SweepPlan("search", 1.0, "search.yaml", ()))
        for number in range(1000):
            store.add_suggestion(cell(number), number, {"lr": 0.5})
        folder = open_storage(process.address(prefix, counting.url)).at("sweeps").at("search")
        plan = newest_plan(folder)
        assert plan is not None
        assert len(plan.trials) == 1000
        listings = [path for method, path in counting.asked if path.endswith(("/bucket", "/bucket/"))]
        assert (len(listings), len(counting.asked) <= 10) == (1, True)

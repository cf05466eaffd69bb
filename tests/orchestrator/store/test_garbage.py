"""Files of killed writers: removed at the next launch, unless another driver may be writing."""

from __future__ import annotations

import pytest

from orchestrator.claims import join
from orchestrator.claims.membership import this_process
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore
from orchestrator.store.temporary_files import remove_temporary_files
from tests.orchestrator.store.rows import epoch

LEFT = ("epochs/.part-1.parquet.0123abcd.tmp", "checkpoints/.a-1.safetensors.0123abcd.tmp")


@pytest.fixture
def store(local_storage: FolderStorage) -> ResultStore:
    found = ResultStore(local_storage)
    found.append("epochs", [epoch()])
    for name in LEFT:
        (found.root / name).parent.mkdir(exist_ok=True)
        (found.root / name).touch()
    return found


def left(store: ResultStore) -> list[str]:
    return [name for name in LEFT if (store.root / name).exists()]


def test_temporary_files_of_killed_writers_are_removed_and_nothing_else(store: ResultStore) -> None:
    with join(store.storage, "tiny", say=print) as membership:
        remove_temporary_files(store.storage, membership)
    assert left(store) == []
    assert len(store.epochs()) == 1


def test_what_a_driver_writes_before_it_is_present_stays(local_storage: FolderStorage) -> None:
    early = [local_storage.folder / name for name in (".probe.0123abcd.tmp", "drivers/.a.0123abcd.tmp")]
    with join(local_storage, "tiny", say=print) as membership:
        for path in early:
            path.touch()
        remove_temporary_files(local_storage, membership)
        assert all(path.exists() for path in early)


@pytest.mark.parametrize("content", [b"", this_process("other").as_json()])
def test_while_another_driver_may_be_alive_they_stay(store: ResultStore, content: bytes) -> None:
    store.storage.at("drivers").write(f"{'0' * 16}-00000001.json", content)
    with join(store.storage, "tiny", say=print) as membership:
        remove_temporary_files(store.storage, membership)
    assert left(store) == list(LEFT)

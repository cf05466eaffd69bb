"""Files of killed writers: removed at the next launch, unless another driver may be writing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from orchestrator.lease import take_lease
from orchestrator.lease.claims import ClaimFolder
from orchestrator.lease.holder import this_driver
from orchestrator.storage.storage import FolderStorage
from orchestrator.store import ResultStore
from orchestrator.store.garbage import remove_temporary_files
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
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = replace(this_driver(), pid=int(ended.stdout))
    ClaimFolder(store.storage.at("leases").at("other")).write("0" * 16, 1, dead, holds=True)
    with take_lease(store.storage, "tiny", say=print):
        remove_temporary_files(store.storage, "tiny")
    assert left(store) == []
    assert len(store.epochs()) == 1


@pytest.mark.parametrize("content", [None, b""])
def test_while_another_sweep_runs_they_stay(store: ResultStore, content: bytes | None) -> None:
    claims = ClaimFolder(store.storage.at("leases").at("other"))
    name = claims.write("0" * 16, 1, this_driver(), holds=True)
    if content is not None:
        claims.storage.write(name, content)
    remove_temporary_files(store.storage, "tiny")
    assert left(store) == list(LEFT)

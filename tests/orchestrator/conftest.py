"""The store's tests run on a folder and on an S3 of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.storage.open_storage import open_storage
from orchestrator.storage.storage import FolderStorage, Storage
from orchestrator.store import ResultStore, open_store
from tests.examples import first
from tests.orchestrator.store.real import Real, make_real
from tests.s3 import ENVIRONMENT, S3Process
from tests.small_sweeps import POS, launched, write_bank

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def s3_process() -> Iterator[S3Process]:
    with S3Process(page=3) as process:  # listings come in pages
        yield process


@pytest.fixture
def s3(s3_process: S3Process, monkeypatch: pytest.MonkeyPatch) -> S3Process:
    """The server, and what its clients find in the environment."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return s3_process


@pytest.fixture
def prefix() -> str:
    """One that no other test has."""
    return f"tests/{next(_NUMBERS)}"


@pytest.fixture
def local_storage(tmp_path: Path) -> FolderStorage:
    (tmp_path / "results").mkdir()
    return FolderStorage(tmp_path / "results")


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    """One that is not there yet."""
    return open_store(tmp_path / "results", must_exist=False)


@pytest.fixture(params=first(1, ["local", "s3"]))
def storage(request: pytest.FixtureRequest) -> Storage:
    """An empty storage of either kind."""
    if request.param == "local":
        found: Storage = request.getfixturevalue("local_storage")
        return found
    s3: S3Process = request.getfixturevalue("s3")
    return open_storage(s3.address(request.getfixturevalue("prefix")))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """A store beside its corpus: two seeds of one setting, complete. No test changes it."""
    folder = tmp_path_factory.mktemp("trained")
    write_bank(folder / "bank", train=24, dev=8, test=8)
    return launched(folder, POS)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    """A store that launches have made; a test takes a copy."""
    return make_real(tmp_path_factory.mktemp("real"))

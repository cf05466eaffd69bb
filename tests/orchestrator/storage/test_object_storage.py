"""A store on S3: listings in pages, failures that pass and that last, credentials that nobody is told, the cache."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.storage import object_storage
from orchestrator.storage.open_storage import open_storage
from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan
from tests.orchestrator.store.rows import epoch, trial
from tests.s3 import BUCKET, ENVIRONMENT, S3Process
from tests.servers import LoopbackServer, Reply, Request
from trials.errors import StoreError


class Proxy(LoopbackServer):
    """Hands requests on to an S3.

    Attributes:
        failing: How many of the next requests are answered `refusal` instead.
    """

    def __init__(self, target: str) -> None:
        super().__init__()
        self.target, self.failing, self.refusal = target, 0, Reply(503)

    def reply(self, request: Request, body: bytes) -> Reply:
        if self.failing:
            self.failing -= 1
            return self.refusal
        headers = {name: text for name, text in request.headers.items() if name not in ("host", "expect")}
        headers["content-type"] = "application/octet-stream"  # urllib would say that it is a form
        asked = urllib.request.Request(f"{self.target}{request.path}", body or None, headers, method=request.method)
        try:
            with urllib.request.urlopen(asked) as answer:
                return Reply(answer.status, answer.read(), _plain(answer.headers.items()))
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.read(), _plain(error.headers.items()))


def _plain(headers: list[tuple[str, str]]) -> dict[str, str]:
    hop = ("connection", "transfer-encoding", "server", "date")
    return {name: text for name, text in headers if name.lower() not in hop}


@pytest.fixture
def proxy(s3: S3Process) -> Iterator[Proxy]:
    with Proxy(s3.url) as server:
        yield server


@pytest.fixture
def address(proxy: Proxy, prefix: str) -> str:
    """A store's, through the proxy."""
    return f"s3://{BUCKET}/{prefix}?endpoint_override={proxy.url}"


@pytest.fixture
def store(address: str) -> ResultStore:
    return open_store(address, must_exist=False)


def steps(store: ResultStore) -> list[int]:
    return list(store.epochs()["step"].to_pylist())


def test_names_in_several_pages_are_listed_and_those_beyond_are_not_asked_for(s3: S3Process, prefix: str) -> None:
    storage = open_storage(s3.address(prefix))  # three names a page
    for n in range(7):
        storage.write(f"part-{n}", b"x")
        storage.subfolder("sweeps").subfolder(f"s{n % 2}").write(f"plan-{n}", b"xy")
    storage.write("empty", b"")  # as other programs mark a folder
    assert storage.files() == {f"part-{n}": 1 for n in range(7)}
    assert storage.files("part-3", "part-6") == {"part-4": 1, "part-5": 1}
    assert (storage.folders(), storage.subfolder("sweeps").folders()) == (["sweeps"], ["s0", "s1"])
    assert storage.subfolder("sweeps").files_by_folder() == {
        "s0": {f"plan-{n}": 2 for n in (0, 2, 4, 6)}, "s1": {f"plan-{n}": 2 for n in (1, 3, 5)},
    }  # fmt: skip


def test_failures_that_pass_cost_no_row_and_double_none(store: ResultStore, proxy: Proxy) -> None:
    for step in range(3):
        proxy.failing = 2
        store.append("epochs", [epoch(step=step)])
    proxy.failing = 2
    assert steps(store) == [0, 1, 2]
    assert len(store.storage.subfolder("epochs").files()) == 3


def test_a_lasting_failure_names_the_storage_and_says_that_the_rest_is_whole(
    address: str, store: ResultStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append("epochs", [epoch(step=1)])
    monkeypatch.setattr(object_storage, "PATIENCE_S", 0.3)
    impatient = open_store(address)
    proxy.failing = 10**6
    for act in (lambda: impatient.append("epochs", [epoch(step=2)]), impatient.trials):
        with pytest.raises(StoreError) as error:
            act()
        assert str(error.value).startswith(f"{store.storage}/")
        assert "status code: 503" in str(error.value)
        assert str(error.value).endswith("What was committed before is intact. Try again when it answers.")
    proxy.failing = 0
    assert steps(store) == [1]


def test_a_refused_key_is_an_error_at_once_and_told_to_nobody(store: ResultStore, proxy: Proxy) -> None:
    key = ENVIRONMENT["AWS_ACCESS_KEY_ID"]
    proxy.failing, proxy.refusal = (
        10**6,
        Reply(403, f"<Error><Message>The key {key} is wrong</Message></Error>".encode()),
    )
    for act in (lambda: store.append("epochs", [epoch()]), store.trials, lambda: open_store(store.address)):
        with pytest.raises(StoreError) as error:
            act()
        assert key not in str(error.value)
        assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in str(error.value)
        assert "Access needs AWS_ACCESS_KEY_ID" in str(error.value)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__  # a traceback does not show what the library said either


def test_keys_are_found_in_a_file_of_amazons_client(
    s3: S3Process, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = "\n".join(f"{name.lower()} = {value}" for name, value in ENVIRONMENT.items())
    (tmp_path / "credentials").write_text(f"[default]\n{keys}\n")
    for name in ENVIRONMENT:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    open_store(s3.address(prefix), must_exist=False).append("trials", [trial()])
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(StoreError, match=r"cannot be reached \(The config profile .* Access needs AWS_ACCESS_KEY_ID"):
        open_store(s3.address(prefix))


def test_a_bucket_that_is_not_there_is_told_when_a_store_is_opened(s3: S3Process) -> None:
    with pytest.raises(StoreError) as error:
        open_store(s3.address("x").replace("//bucket", "//pail"), must_exist=False)
    assert str(error.value) == "s3://pail/x: there is no bucket 'pail'. Create it first."


def test_google_without_its_credentials_says_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(StoreError) as error:
        open_store("gs://bucket/x?endpoint_override=127.0.0.1:9&scheme=http")
    assert str(error.value).startswith("gs://bucket/x: cannot be reached (")
    assert str(error.value).endswith("Access needs the file that GOOGLE_APPLICATION_CREDENTIALS names.")


def test_a_part_is_fetched_once(store: ResultStore, proxy: Proxy) -> None:
    for step in range(5):
        store.append("epochs", [epoch(step=step)])
    for _ in range(3):
        assert steps(store) == list(range(5))
    store.add_plan(SweepPlan("tiny", 1.0, "tiny.yaml", ()))
    fetched = [asked.path for asked in proxy.log if asked.method == "GET" and asked.path.endswith(".parquet")]
    assert len(fetched) == len(set(fetched)) == 5

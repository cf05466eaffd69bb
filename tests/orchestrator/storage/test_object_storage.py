"""An object store that fails, is slow, cuts connections: every row is there once, and no error tells a key."""

from __future__ import annotations

import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.storage import connection as connection_module
from orchestrator.storage import object_storage
from orchestrator.storage.address import parse_address
from orchestrator.storage.connection import connect
from orchestrator.storage.object_storage import ObjectCache, ObjectStorage, halfway
from orchestrator.store import ResultStore, open_store
from orchestrator.store.sweep_plans import SweepPlan
from tests.examples import first
from tests.orchestrator.store.rows import epoch, tag, trial
from tests.s3_faults import Faults
from tests.s3_objects import ACCESS_KEY, BUCKET, RENEWED_KEY, SECRET_KEY
from tests.s3_server import S3Process
from trials.errors import StoreError


def opened(address: str, *, patience_s: float = 20.0) -> ResultStore:
    """A store with a cache of its own, as a new process has it."""
    parsed = parse_address(address)
    return ResultStore(ObjectStorage(connect(parsed, patience_s), parsed, cache=ObjectCache()))


def steps(store: ResultStore) -> list[int]:
    return list(store.epochs()["step"].to_pylist())


@pytest.fixture
def direct(s3: S3Process, prefix: str) -> ResultStore:
    """The store, past the proxy."""
    return opened(s3.address(prefix))


@pytest.fixture
def through(s3: S3Process, prefix: str, faults: Faults) -> ResultStore:
    """The same store, through the proxy."""
    return opened(s3.address(prefix, faults.url))


# --- Faults


@pytest.mark.slow
def test_a_third_of_500s_and_slow_answers_lose_and_double_nothing(
    through: ResultStore, direct: ResultStore, faults: Faults
) -> None:
    faults.error_share, faults.slow_share, faults.slow_s = 0.3, 0.1, 0.2
    for step in range(15):
        through.append("epochs", [epoch(step=step)])
        through.append("tags", [tag(name=f"T{step}")])
    through.append("trials", [trial()])
    through.compact()
    assert steps(through) == list(range(15))
    assert sum(count for kind, count in faults.spoilt.items() if kind) > 15
    assert steps(direct) == list(range(15))
    assert (len(direct.tags()), len(direct.trials())) == (15, 1)


def test_a_put_cut_in_the_middle_leaves_nothing_and_is_sent_again_and_one_always_cut_is_an_error(
    through: ResultStore, direct: ResultStore, faults: Faults
) -> None:
    through.append("epochs", [epoch(step=1)])
    faults.cut_puts = 2
    through.append("epochs", [epoch(step=2)])
    assert faults.spoilt["cut"] == 2
    assert steps(direct) == [1, 2]
    assert len(direct.storage.at("epochs").files()) == 2
    faults.cut_puts = 1000
    with pytest.raises(StoreError, match="cannot be written"):
        opened(through.address, patience_s=0.5).append("epochs", [epoch(step=3)])
    assert steps(direct) == [1, 2]
    assert len(direct.storage.at("epochs").files()) == 2


def test_an_answer_cut_in_the_middle_is_asked_for_again(
    through: ResultStore, direct: ResultStore, faults: Faults
) -> None:
    direct.append("epochs", [epoch(step=step) for step in range(2000)])
    faults.cut_gets = 2
    assert steps(through) == list(range(2000))
    assert faults.spoilt["cut answer"] == 2


def test_a_put_whose_answer_is_lost_is_one_part_and_rows_are_there_once_when_a_server_answers_again(
    through: ResultStore, direct: ResultStore, faults: Faults
) -> None:
    through.append("epochs", [])
    faults.lost_answers = 2
    through.append("epochs", [epoch(step=1)])
    assert faults.spoilt["lost"] == 2
    assert len(direct.storage.at("epochs").files()) == 1
    threading.Timer(1.0, lambda: setattr(faults, "status", None)).start()
    faults.status = 500
    through.append("epochs", [epoch(step=2)])
    assert steps(direct) == [1, 2]


def test_an_object_without_bytes_counts_as_not_there(direct: ResultStore) -> None:
    direct.append("epochs", [epoch()])
    direct.storage.at("epochs").write("part-0.parquet", b"")
    direct.storage.at("sweeps").at("tiny").write("plan-9.json", b"")
    assert steps(direct) == [1]
    assert direct.sweeps() == []


def test_a_lasting_failure_names_the_storage_and_says_that_the_rest_is_whole(
    through: ResultStore, direct: ResultStore, faults: Faults
) -> None:
    impatient = opened(through.address, patience_s=0.5)
    impatient.append("epochs", [epoch(step=1)])
    faults.status = 503
    for act in (lambda: impatient.append("epochs", [epoch(step=2)]), impatient.epochs):
        with pytest.raises(StoreError) as error:
            act()
        assert str(error.value).startswith(f"{direct.storage}/")
        assert "status code: 503" in str(error.value)
        assert str(error.value).endswith("What was committed before is intact. Try again when it answers.")
    assert steps(direct) == [1]


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(s3: S3Process, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = opened(s3.address(prefix, f"http://127.0.0.1:{silent.getsockname()[1]}"), patience_s=0.5)
        with pytest.raises(StoreError, match="cannot be read"):
            store.trials()


# --- Secrets


def test_a_refused_key_is_an_error_at_once_and_told_to_nobody(
    s3: S3Process, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWRONGWRONGWRONG7")
    store = opened(s3.address(prefix), patience_s=1e6)  # a retry would outlast the test
    for act in (lambda: store.append("epochs", [epoch()]), store.trials, lambda: open_store(store.address)):
        with pytest.raises(StoreError) as error:
            act()
        assert "AKIA" not in str(error.value)
        assert SECRET_KEY not in str(error.value)
        assert "Access needs AWS_ACCESS_KEY_ID" in str(error.value)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__  # a traceback does not show what the library said either


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that some other program renews, in the place of variables."""
    path = tmp_path / "credentials"
    path.write_text(CREDENTIALS.format(ACCESS_KEY))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    return path


CREDENTIALS = f"[default]\naws_access_key_id = {{}}\naws_secret_access_key = {SECRET_KEY}\n"


def test_credentials_that_expire_in_between_are_read_anew_and_an_error_if_they_stay_so(
    faults: Faults, prefix: str, s3: S3Process, credentials: Path
) -> None:
    store = opened(s3.address(prefix, faults.url))
    store.append("epochs", [epoch(step=1)])
    faults.expired = ACCESS_KEY
    threading.Timer(0.5, lambda: credentials.write_text(CREDENTIALS.format(RENEWED_KEY))).start()
    store.append("epochs", [epoch(step=2)])
    assert faults.spoilt["expired"] > 0
    assert steps(store) == [1, 2]
    impatient = opened(s3.address(prefix, faults.url), patience_s=0.3)
    impatient.append("epochs", [epoch(step=3)])
    faults.expired = RENEWED_KEY
    with pytest.raises(StoreError, match="ExpiredToken"):
        impatient.append("epochs", [epoch(step=4)])


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


# --- Opening


def test_the_environment_may_say_where_s3_is(s3: S3Process, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    open_store(f"s3://bucket/{prefix}", must_exist=False).append("trials", [trial()])
    assert len(open_store(s3.address(prefix)).trials()) == 1


# --- Names of other programs


def test_names_that_are_not_asked_for_are_not_listed_however_many(s3: S3Process) -> None:
    with S3Process(page=60) as process, Faults(process.url) as faults:
        direct, through = opened(process.address("x")), opened(process.address("x", faults.url))
        direct.append("trials", [trial()])
        direct.add_plan(SweepPlan("tiny", 1.0, "tiny.yaml", ()))
        trials, sweeps = direct.storage.at("trials"), direct.storage.at("sweeps")
        for name in [f"{kind}-{n}" for kind in ("notes", "queue") for n in range(130)]:
            trials.write(name, b"x")
        for folder in (sweeps, sweeps.at("tiny"), sweeps.at("empty")):
            folder.write("notes.txt", b"x")
        assert len(trials.files()) == 261
        assert list(trials.files("notes-128", "notes-13")) == ["notes-129"]
        assert (through.completed_ids(), [plan.name for plan in through.sweeps()]) == (frozenset("a"), ["tiny"])
        assert len([path for method, path in faults.asked if path.strip("/") == BUCKET]) == 2


@pytest.mark.parametrize("strange", first(1, [True, False]))
def test_many_names_are_listed_by_several_requests_at_a_time(
    strange: bool, s3: S3Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "PAGE", 100)  # a multiple of what obstore hands over at a time
    with S3Process(page=100) as process, Faults(process.url) as faults:
        direct, through = (opened(process.address("x", url)).storage.at("sweeps") for url in (None, faults.url))
        folders = ("a", "a-b", *"cdef")
        for folder in folders:
            for n in range(0 if strange and folder == "a" else 40):
                direct.at(folder).write(f"plan-{n:02}", b"x")
            if folder == "a":
                assert [*through.inside()] == ([] if strange else ["a"])
                assert len(faults.asked) == 1
        for n in range(400 if strange else 0):
            direct.write(f"{n % 16:x}{n:04}", b"x")
        n_before = len(faults.asked)
        assert through.inside() == {folder: direct.at(folder).files() for folder in folders[strange:]}
        assert len(faults.asked) - n_before == (11 if strange else 5)


@given(st.text(), st.text(), st.sampled_from(["", "a", "x/"]))
def test_halfway_is_between(one: str, other: str, start: str) -> None:
    low, high = sorted((start + one, start + other))
    assume(low != high)
    assert low < halfway(low, high)
    assert halfway(low, high) < high or not (low + high).isascii() or not (low + high).isprintable()


@pytest.mark.parametrize("name", ["trials/z//x", "trials/./x"])
def test_a_name_that_is_no_path_is_told_at_once_or_not_in_the_way(name: str, s3: S3Process, prefix: str) -> None:
    store = opened(s3.address(prefix), patience_s=1e6)
    store.append("trials", [trial()])
    key = quote(f"{BUCKET}/{prefix}/{name}")
    authorization = {"Authorization": f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/"}
    urllib.request.urlopen(urllib.request.Request(f"{s3.url}/{key}", b"x", authorization, method="PUT")).close()
    if name < "trials/part":
        assert store.completed_ids() == {"a"}
    else:
        with pytest.raises(StoreError, match="Delete that object, whose name is no path"):
            store.completed_ids()


# --- The cache


def test_a_part_is_fetched_once(through: ResultStore, direct: ResultStore, faults: Faults) -> None:
    for step in range(5):
        direct.append("epochs", [epoch(step=step)])
    for _ in range(3):
        assert steps(through) == list(range(5))
    fetched = [path for method, path in faults.asked if method == "GET" and path.endswith(".parquet")]
    assert len(fetched) == len(set(fetched)) == 5
    direct.append("epochs", [epoch(step=5)])
    assert steps(through) == list(range(6))


def test_a_cache_holds_no_more_than_its_limit_and_drops_the_oldest() -> None:
    cache = ObjectCache(limit_bytes=10)
    for name in "abc":
        cache.put(name, b"1234")
        cache.get("a")
    assert [cache.get(name) is not None for name in "abc"] == [True, False, True]
    cache.put("large", b"x" * 11)
    cache.put("a", b"12")
    cache.drop("c")
    assert [cache.get(name) for name in ("a", "c", "large")] == [b"12", None, None]


# --- Objects that are created only if they are absent


def test_a_creation_whose_answer_was_lost_is_the_callers(
    through: ResultStore, direct: ResultStore, faults: Faults
) -> None:
    through.storage.write("connected", b"x")
    faults.lost_answers = 1
    assert through.storage.create("claim", b"mine")
    assert faults.spoilt["lost"] == 1
    assert not direct.storage.create("claim", b"another's")
    assert direct.storage.read("claim") == b"mine"


@pytest.mark.parametrize("has_conditions", first(1, [False, True]))
def test_a_service_that_ignores_the_condition_is_found_out(s3: S3Process, has_conditions: bool) -> None:
    with S3Process(has_conditions=has_conditions) as process:
        storage = opened(process.address("x")).storage
        assert storage.honours_create() is has_conditions
        assert storage.is_free()


# --- Where a bucket is


def test_the_region_of_a_bucket_of_amazons_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Amazon(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(301)
            self.send_header("x-amz-bucket-region", {"/here": "eu-west-1"}[self.path])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with HTTPServer(("127.0.0.1", 0), Amazon) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setattr(connection_module, "_REGIONS_URL", f"http://127.0.0.1:{server.server_port}")
        assert connection_module._region("here") == "eu-west-1"

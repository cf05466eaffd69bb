"""How a submitted sweep is followed, by Ray's own client; tests/end_to_end/test_cluster.py has a real cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from orchestrator.backends import ray_jobs
from orchestrator.config.yaml_document import Document
from orchestrator.ray_backend import job_package
from orchestrator.ray_backend import jobs as jobs_module
from orchestrator.ray_backend.job_package import our_modules, package_sweep, pinned_packages
from orchestrator.ray_backend.jobs import Jobs
from orchestrator.sweeps.cluster_spec import ClusterSpec, find_cluster
from trials.errors import ConfigError, MissingError, RefusedError

JOB = {"type": "SUBMISSION", "submission_id": "a", "entrypoint": "", "status": "FAILED", "driver_exit_code": 1}


@pytest.fixture(autouse=True)
def _a_home_without_a_token_of_ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@contextmanager
def head(*jobs: dict[str, object], breaks: str = "") -> Iterator[Jobs]:
    """A head with these jobs; connections that follow one break, each `b`efore or `a`fter the output."""
    left = list(breaks)

    async def listed(request: web.Request) -> web.Response:
        return web.json_response(jobs)

    async def one(request: web.Request) -> web.Response:
        found = [job for job in jobs if job["submission_id"] == request.match_info["job"]]
        return web.json_response(found[0]) if found else web.Response(status=404)

    async def tail(request: web.Request) -> web.StreamResponse:
        assert request.transport
        if (await one(request)).status == 404:
            return web.Response(status=404)
        how, socket = left.pop(0) if left else "", web.WebSocketResponse()
        if how == "b":
            request.transport.abort()
            return web.Response()
        await socket.prepare(request)
        await socket.send_str("1/2 completed\n")
        if how == "a":
            request.transport.close()
        return socket

    async def version(request: web.Request) -> web.Response:
        return web.json_response({"ray_version": "2.60.0"})

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/api/version", version)
        app.router.add_get("/api/jobs/", listed)
        app.router.add_get("/api/jobs/{job}", one)
        app.router.add_get("/api/jobs/{job}/logs/tail", tail)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address.append(runner.addresses[0])
        started.set()
        await asyncio.to_thread(ended.wait)
        await runner.cleanup()

    address: list[tuple[str, int]] = []
    started, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    started.wait()
    try:
        yield Jobs("http://{}:{}".format(*address[0]))
    finally:
        ended.set()
        thread.join()


def test_who_follows_a_job_hears_at_once_that_the_cluster_was_restarted_without_it() -> None:
    said: list[str] = []
    with (
        head(JOB | {"submission_id": "another"}) as jobs,
        pytest.raises(MissingError, match=r"was restarted and no longer has this job\. Run the same launch") as told,
    ):
        jobs.follow("a", said.append, said.append)
    assert (told.value.exit_code, said) == (3, [])


def test_a_job_that_the_cluster_still_has_is_followed_again_each_time_that_the_connection_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs_module, "RETRY_S", 0.0)
    written, said = list[str](), list[str]()
    with head(JOB, breaks="bba") as jobs:
        assert jobs.follow("a", written.append, said.append).code == 1
    assert written == ["1/2 completed\n"]
    assert len(said) == 2  # the ten minutes begin anew once there was output


def test_a_job_that_ends_without_a_word_is_told_by_its_exit_code() -> None:
    said = list[str]()
    with head(JOB | {"driver_exit_code": -15}) as jobs:
        assert ray_jobs.follow(jobs, "a", "tiny", said.append, said.append) == 143
    assert said[-1] == "job     a ended with exit code 143"


# --- What a submitted sweep takes along, and what it does not.


SWEEP = """
name: s
trial: {data: {folder: bank}, model: starter}
space:
  train_size: [4, 8]
  data.first: [{train: 8}]
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    for name, text in {
        "bank/train.conllu": "# text\n",
        "results/large.parquet": "not to be sent",
        "s.yaml": SWEEP,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def sent_from(here: Path, spec: ClusterSpec = ClusterSpec(), *settings: str) -> tuple[Path, str]:  # noqa: B008
    """The folder that goes to the cluster, and the name of its sweep file."""
    (sent := here.parent / "sent").mkdir(exist_ok=True)
    document = Document.read(here / "s.yaml")
    for setting in settings:
        document.override(setting)
    return sent, package_sweep(sent, document, spec, here)


def test_the_sweep_and_the_local_files_it_names_are_sent_and_nothing_else(here: Path) -> None:
    spec = ClusterSpec(address="http://head:8265", concurrency=7)
    sent, name = sent_from(here, spec)
    files = sorted(str(path.relative_to(sent)) for path in sent.rglob("*") if path.is_file())
    assert files == ["bank/train.conllu", "cluster.yaml", name]
    assert yaml.safe_load((sent / name).read_text()) == yaml.safe_load(SWEEP)
    # There the cluster is the one that its driver belongs to.
    assert find_cluster(str(sent / "cluster.yaml")) == ClusterSpec(address="auto", concurrency=7)
    sent, name = sent_from(here, spec, "space.train_size=[2]")
    assert yaml.safe_load((sent / name).read_text())["space"]["train_size"] == [2]


def test_files_outside_of_this_folder_and_too_many_are_not_sent_but_told(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(job_package, "MOST_BYTES", 3)
        with pytest.raises(ConfigError, match="of local files, and at most"):
            sent_from(here)
    assert not list((here.parent / "sent").iterdir())
    (here.parent / "elsewhere").mkdir()
    (here / "s.yaml").write_text("name: s\ntrial: {data: {folder: ../elsewhere}}\n")
    with pytest.raises(ConfigError, match=r"\.\./elsewhere: lies outside of .*, so it is not sent"):
        sent_from(here)


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ("trial: {data: {folder: bank}, model: starter, freeze: none, optim: {schedule: linear}}", {"bank"}),
        ("trial: {data: {folder: bank, name: secret}, model: {folder: mine}}", {"bank", "mine"}),
        ("trial: {data: {train: bank/train.conllu, dev: [mine/a], test: bank}}", {"bank", "mine"}),
        ("trial: {data.folder: bank}\nspace: {model: [starter, mine], freeze: [none, random]}", {"bank", "mine"}),
        ("space: {cases: [{data: {folder: bank}}, {model.folder: {choice: [mine]}}]}", {"bank", "mine"}),
        ("trial: {data: starter}\nspace: {data: [random, {hub: secret, splits: {train: none}}]}", {"random"}),
        ("trial: {data: {ud: secret, columns: {text: none}}, score: random, notes: [secret]}", set()),
    ],
)
def test_only_the_paths_of_data_and_models_are_sent_whatever_else_is_called_like_a_file(
    here: Path, settings: str, sent: set[str]
) -> None:
    for name in ("starter", "none", "random", "linear", "secret"):
        (here / name).write_text("not to be sent")
    (here / "mine").mkdir()
    (here / "mine" / "a").write_text("")
    (here / "s.yaml").write_text(f"name: s\n{settings}\n")
    target, name = sent_from(here)
    assert {path.name for path in target.iterdir()} - {"cluster.yaml", name} == sent


@pytest.mark.parametrize("target", ["/etc/hostname", "../results/large.parquet"])
def test_a_link_that_leads_out_of_a_corpus_is_refused_by_name(here: Path, target: str) -> None:
    (here / "bank" / "more").mkdir()
    (here / "bank" / "more" / "dev.conllu").symlink_to(target)
    with pytest.raises(RefusedError, match=r"bank/more/dev\.conllu: a link to "):
        sent_from(here)
    assert not list((here.parent / "sent").iterdir())


def test_links_inside_of_a_corpus_are_sent_as_files_of_their_names(here: Path) -> None:
    (here / "bank" / "dev.conllu").symlink_to("train.conllu")
    (here / "linked").symlink_to("bank")
    (here / "s.yaml").write_text("name: s\ntrial: {data: {folder: linked}}\n")
    sent, _ = sent_from(here)
    assert {p.name for p in (sent / "linked").iterdir() if not p.is_symlink()} == {"train.conllu", "dev.conllu"}


def test_the_pinned_environment_is_what_is_installed_here_but_for_ray_and_our_code_what_drivers_import() -> None:
    found = dict(text.split("==") for text in pinned_packages())
    assert {"torch", "transformers", "pyarrow", "pydantic"} <= found.keys()
    assert not {"ray", "permafrost-sweeps"} & found.keys()
    assert [Path(folder).name for folder in our_modules()] == ["orchestrator", "trials"]

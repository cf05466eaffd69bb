"""How a submitted sweep is followed, by Ray's own client; tests/end_to_end/test_cluster.py has a real cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiohttp import web

from orchestrator.ray_backend import jobs as module
from orchestrator.ray_backend.jobs import Jobs
from orchestrator.session import submit
from trials.errors import MissingError

JOB = {"type": "SUBMISSION", "submission_id": "a", "entrypoint": "", "status": "FAILED", "driver_exit_code": 1}


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
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    written, said = list[str](), list[str]()
    with head(JOB, breaks="bba") as jobs:
        assert jobs.follow("a", written.append, said.append).code == 1
    assert written == ["1/2 completed\n"]
    assert len(said) == 2  # the ten minutes begin anew once there was output


def test_a_job_that_ends_without_a_word_is_told_by_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with head(JOB | {"driver_exit_code": -15}) as jobs:
        assert submit.follow(jobs, "a", "tiny") == 143
    assert capsys.readouterr().err == "job     a ended with exit code 143\n"

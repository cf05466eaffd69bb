"""Messages over real HTTP on loopback: what is sent, when, and that nothing that goes wrong hurts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.extras.notifications import notify
from orchestrator.extras.notifications.notify import Message, Notifier, NotSentError, Webhook
from orchestrator.monitoring.progress import Ending, Tally
from orchestrator.store.schema import State
from orchestrator.sweeps.watch_spec import NotifySpec, WebhookSpec
from tests.builders import Clock, make_record, make_spec
from tests.examples import each
from tests.server_programs import free_port
from tests.servers import LoopbackServer, Reply, Request
from trials.errors import ConfigError

DONE = Ending("done", None, {State.COMPLETED: 3}, 0, 3725.0)
FAILED = Ending("failed", "OSError: //me:pw@host is gone", {State.COMPLETED: 1, State.OUT_OF_MEMORY: 1}, 2, 60.0)
INTERRUPTED = Ending("interrupted", None, {}, 4, 1.0)
MESSAGE = Message("Sweep tiny is done", {"event": "done", "sweep": "tiny"}, urgent=False)


class Hook(LoopbackServer):
    """Takes posts as a chat does; keeps their bodies."""

    def __init__(self, answer: Reply = Reply(), wait_s: float = 0.0) -> None:  # noqa: B008
        super().__init__()
        self.answer, self.wait_s, self.bodies = answer, wait_s, list[Any]()

    @property
    def secret_url(self) -> str:
        return f"{self.url}/services/s3cr3t"

    def reply(self, request: Request, body: bytes) -> Reply:
        time.sleep(self.wait_s)
        self.bodies.append(json.loads(body))
        return self.answer


def notifier(
    url: str, monkeypatch: pytest.MonkeyPatch, said: list[str], tally: Tally | None = None, **more: Any
) -> Notifier:
    monkeypatch.setenv("HOOK", url)
    spec = NotifySpec(webhook=WebhookSpec(url_env="HOOK"), **more)
    tally = tally or Tally(4)
    return Notifier(spec, Webhook.of(spec.webhook), tally, sweep="tiny", store="results", say=said.append)


def wait_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.02)


def test_a_sweep_is_told_in_a_text_and_fields_and_why_it_failed_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    with Hook() as hook:
        for ending in (DONE, FAILED):
            notifier(hook.secret_url, monkeypatch, said).over(tuple, ending)
    assert said == []
    assert [body["text"] for body in hook.bodies] == [
        "Sweep tiny is done: 3 trials in 1 h 2 min",
        "Sweep tiny failed: 1 of 4 trials completed",
    ]
    done, failed = (
        {field["title"]: field["value"] for field in body["attachments"][0]["fields"]} for body in hook.bodies
    )
    assert (done["trials"], done["store"]) == ("3 completed", "results")
    assert failed["trials"] == "1 completed, 1 out of memory; 2 never ended"
    assert failed["why"] == "OSError: //***@host is gone"


def test_only_what_was_asked_for_is_told_and_never_what_a_person_did(monkeypatch: pytest.MonkeyPatch) -> None:
    with Hook() as hook:
        for ending, events in ((DONE, ["failed"]), (FAILED, ["done", "stalled"]), (INTERRUPTED, ["failed"])):
            notifier(hook.secret_url, monkeypatch, [], events=events).over(tuple, ending)
        assert hook.bodies == []
        notifier(hook.secret_url, monkeypatch, [], events=["failed"]).over(tuple, FAILED)
        assert len(hook.bodies) == 1


def test_each_stall_is_told_once_and_work_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally(2, clock := Clock())
    with Hook() as hook:
        told = notifier(hook.secret_url, monkeypatch, [], tally, stalled_minutes=1 / 60, events=["stalled"])
        told.launched(skipped=0)
        tally.started(make_spec(), 1)
        clock.now = 1.0
        wait_until(lambda: len(hook.bodies) == 1)
        time.sleep(0.3)  # several looks
        assert len(hook.bodies) == 1
        tally.evaluated(make_spec(), make_record())
        clock.now = 2.0
        wait_until(lambda: len(hook.bodies) == 2)
        told.over(tuple, DONE)
    assert hook.bodies[0]["text"].startswith("Sweep tiny stalled: no trial made progress for 0.0166667 minutes")


def test_a_sweep_that_gets_on_or_is_over_does_not_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally(2, clock := Clock())
    with Hook() as hook:
        told = notifier(hook.secret_url, monkeypatch, [], tally, stalled_minutes=1 / 60, events=["stalled"])
        told.launched(skipped=0)
        for _ in range(5):
            clock.now += 0.9
            time.sleep(0.1)
            tally.evaluated(make_spec(), make_record())
        for seed in (0, 1):
            tally.ended(make_spec(seed=seed), State.COMPLETED, None)
        clock.now += 100
        time.sleep(0.3)
        told.over(tuple, DONE)
    assert hook.bodies == []


@each(
    "answer, said",
    [
        (Reply(404), "answered HTTP 404"),
        (Reply(500, b"s3cr3t"), "answered HTTP 500"),
        (Reply(302, headers={"Location": "http://127.0.0.1:9/elsewhere"}), "redirects elsewhere (HTTP 302)"),
        (Reply(307, headers={"Location": "https://example.org/"}), "redirects elsewhere (HTTP 307)"),
    ],
)
def test_a_refusal_or_a_redirect_is_one_line_without_the_address(
    answer: Reply, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with Hook(answer) as hook:
        notifier(hook.secret_url, monkeypatch, told).over(tuple, DONE)
        assert len(hook.log) == 1
    assert len(told) == 1
    assert said in told[0]
    assert "s3cr3t" not in told[0]


def test_a_slow_server_is_not_waited_for_longer_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "WAIT_S", 0.3)
    said: list[str] = []
    with Hook(wait_s=1.5) as hook:
        notifier(hook.secret_url, monkeypatch, said).over(tuple, DONE)
        assert hook.bodies == []  # it has not answered yet
        monkeypatch.setattr(notify, "TIMEOUT_S", 0.2)
        with pytest.raises(NotSentError, match=r"127\.0\.0\.1: ReadTimeout"):
            Webhook(hook.secret_url).send(MESSAGE)
    assert said == ["watch.notify: no answer after 0 s; a message may not have been delivered."]


def test_an_address_that_would_go_out_unprotected_is_refused_and_not_repeated() -> None:
    for url in ("http://example.org/x", "ftp://example.org", "nonsense", "https://[", "https://a b/"):
        with pytest.raises(ConfigError, match="must begin with https") as caught:
            Webhook(url)
        assert url not in str(caught.value)


def test_a_server_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    notifier(f"http://127.0.0.1:{free_port()}/s3cr3t", monkeypatch, said).over(tuple, DONE)
    assert said == ["watch.notify: notification `done` was not sent: the webhook at 127.0.0.1: ConnectError."]

"""Notifications that a sweep is done, failed, or stalled. An error in them never affects the sweep."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from orchestrator.config.quantities import duration
from orchestrator.config.yaml_document import shortened
from orchestrator.execution.events import last_line
from orchestrator.monitoring.progress import Ending, Tally
from orchestrator.session.monitors import Monitor, Watched
from orchestrator.storage.address import scrubbed
from orchestrator.store.schema import State
from orchestrator.sweeps.watch_spec import NotifySpec, WebhookSpec, is_loopback, read_secret
from trials.errors import ConfigError
from trials.spec import TrialSpec

# Notify a person: a webhook as Slack and Mattermost offer it.
#
# Every failure is a `NotSentError` of one line without secrets: neither the address of a webhook nor a server's answer,
# which may repeat it.

TIMEOUT_S = 10.0  # for each of connecting, sending, and every answer


class NotSentError(Exception):
    """A message was not delivered; says why."""


@dataclass(frozen=True)
class Message:
    """A notification."""

    subject: str
    fields: dict[str, str]
    urgent: bool


class Webhook:
    """Posts JSON: `text` and an attachment with the fields, a format that Slack, Mattermost and Rocket.Chat share."""

    def __init__(self, url: str) -> None:
        """Accepts https, and http to this machine. Raises ConfigError for anything else."""
        self._url, self._host = url, _host_of(url)

    @classmethod
    def of(cls, spec: WebhookSpec) -> Webhook:
        """The webhook that a sweep configures. Raises ConfigError: its address is missing or not valid."""
        return cls(read_secret(spec.url_env, spec.url_file))

    def send(self, message: Message) -> None:
        """Post it. Redirects are not followed, as the address is a secret that another host must not learn."""
        import httpx2  # imported only here, as it takes a while

        try:
            with httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False) as http:
                status = http.post(self._url, json=_payload(message)).status_code
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise NotSentError(f"the webhook at {self._host}: {type(error).__name__}") from None
        if 300 <= status < 400:
            raise NotSentError(
                f"the webhook at {self._host} redirects elsewhere (HTTP {status}), where nothing is sent"
            )
        if status >= 400:
            raise NotSentError(f"the webhook at {self._host} answered HTTP {status}")


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # e.g. an incomplete IPv6 address
        host = ""
    is_safe = host and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
    if not is_safe or any(c.isspace() for c in url):
        raise ConfigError("watch.notify.webhook: its address must begin with https:// (http:// on this machine).")
    return host


def _payload(message: Message) -> dict[str, Any]:
    fields = [{"title": name, "value": value, "short": len(value) < 40} for name, value in message.fields.items()]
    colour = "danger" if message.urgent else "good"
    return {
        "text": message.subject,
        "attachments": [{"fallback": message.subject, "color": colour, "fields": fields}],
    }


WAIT_S = 15.0  # for messages that are still being sent when the launch ends
LOOKS_PER_STALL = 20  # checks per stall time, so that a stall is reported at most 5 % late


class Notifier(Monitor):
    """Sends messages, each in a thread of its own.

    A thread also checks for stalls, as a driver that waits for its store, or one without Ray, calls no tick.
    """

    def __init__(
        self,
        spec: NotifySpec,
        webhook: Webhook,
        tally: Tally,
        *,
        sweep: str,
        store: str,
        say: Callable[[str], None],
    ) -> None:
        self._spec, self._webhook, self._tally, self._say = spec, webhook, tally, say
        self._sweep, self._fields = sweep, {"sweep": sweep, "store": scrubbed(store)}
        self._sending: list[threading.Thread] = []
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watch_for_stalls, name="stalls", daemon=True)

    def launched(self, *, skipped: int) -> None:
        """Check for stalls from now on, if the sweep asks for it."""
        if "stalled" in self._spec.events:
            self._watch.start()

    def over(self, trials: Callable[[], Sequence[TrialSpec]], ending: Ending) -> None:
        """Report how the launch ended, and wait a while for messages to be sent."""
        self._over.set()
        if ending.outcome != "interrupted" and ending.outcome in self._spec.events:
            self._send(_of_ending(self._sweep, ending, self._fields))
        until = time.monotonic() + WAIT_S
        for thread in self._sending:
            thread.join(max(until - time.monotonic(), 0.0))
        if any(thread.is_alive() for thread in self._sending):
            self._say(f"watch.notify: no answer after {WAIT_S:.0f} s; a message may not have been delivered.")

    def _watch_for_stalls(self) -> None:
        limit_s, reported = 60 * self._spec.stalled_minutes, float("-inf")
        while not self._over.wait(limit_s / LOOKS_PER_STALL):
            since = self._tally.quiet_since
            is_stalled = self._tally.left > 0 and self._tally.clock() - since >= limit_s
            if is_stalled and since != reported:
                reported = since
                self._send(_of_stall(self._sweep, self._tally, self._spec.stalled_minutes, self._fields))

    def _send(self, message: Message) -> None:
        thread = threading.Thread(target=self._try, args=(message,), name="notify", daemon=True)
        self._sending.append(thread)
        thread.start()

    def _try(self, message: Message) -> None:
        try:
            self._webhook.send(message)
        except NotSentError as error:
            self._say(f"watch.notify: notification `{message.fields['event']}` was not sent: {error}.")


def monitors(launch: Watched) -> Iterator[Monitor]:
    """The notifier of a launch. Raises ConfigError: the address of its webhook is missing or not valid."""
    if (spec := launch.settings.notify) is not None:
        webhook, store = Webhook.of(spec.webhook), launch.results.address
        yield Notifier(spec, webhook, launch.tally, sweep=launch.sweep, store=store, say=launch.say)


def _of_ending(sweep: str, ending: Ending, fields: dict[str, str]) -> Message:
    counted = ", ".join(f"{n} {state.value.replace('_', ' ')}" for state, n in ending.states.items()) or "none"
    left = f"; {ending.left} never ended" if ending.left else ""
    why = {"why": shortened(scrubbed(last_line(ending.reason)), 500)} if ending.reason else {}
    content = {"event": ending.outcome, **fields, "trials": counted + left, "time": duration(ending.wall_s), **why}
    done = ending.states.get(State.COMPLETED, 0) + ending.states.get(State.PRUNED, 0)
    all_trials = sum(ending.states.values()) + ending.left
    if ending.outcome == "done":
        return Message(f"Sweep {sweep} is done: {done} trials in {duration(ending.wall_s)}", content, urgent=False)
    return Message(f"Sweep {sweep} failed: {done} of {all_trials} trials completed", content, urgent=True)


def _of_stall(sweep: str, tally: Tally, minutes: float, fields: dict[str, str]) -> Message:
    subject = f"Sweep {sweep} stalled: no trial made progress for {minutes:g} minutes"
    trials = f"{tally.n_running} running, {tally.left - tally.n_running} waiting, {tally.states.total()} ended"
    content = {"event": "stalled", **fields, "trials": trials}
    return Message(subject, content, urgent=True)

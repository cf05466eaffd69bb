"""Notify a person: a webhook as Slack and Mattermost offer it.

Every failure is a `NotSentError` of one line without secrets: neither the address of a webhook nor a server's answer,
which may repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from orchestrator.sweeps.notification_spec import WebhookSpec, is_loopback, read_secret
from trials.errors import ConfigError

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

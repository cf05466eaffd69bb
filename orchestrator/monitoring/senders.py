"""Two ways to notify a person: a webhook as Slack and Mattermost offer it, and e-mail.

Every failure is a `NotSentError` of one line without secrets: neither the address of a webhook nor a server's answer,
which may repeat it.
"""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any, Protocol
from urllib.parse import urlsplit

from orchestrator.sweeps.notification_spec import EmailSpec, WebhookSpec, is_loopback, read_secret
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


class Sender(Protocol):
    """A way to notify a person."""

    def send(self, message: Message) -> None:
        """Send it and wait for the answer. Raises NotSentError."""
        ...


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


class Email:
    """Sends a message through a mail server."""

    def __init__(self, spec: EmailSpec, password: str | None, context: ssl.SSLContext | None = None) -> None:
        """`context` holds the trusted certificates; by default the system's."""
        self._spec, self._password = spec, password
        self._context = context or ssl.create_default_context()

    @classmethod
    def of(cls, spec: EmailSpec) -> Email:
        """The mail server that a sweep configures. Raises ConfigError: its password is missing."""
        given = spec.password_env or spec.password_file
        return cls(spec, read_secret(spec.password_env, spec.password_file) if given else None)

    def send(self, message: Message) -> None:
        """Send it to everyone in `to`."""
        spec = self._spec
        try:
            with self._connected() as server:
                if spec.starttls and spec.port != smtplib.SMTP_SSL_PORT:
                    server.starttls(context=self._context)
                if spec.user is not None and self._password is not None:
                    server.login(spec.user, self._password)
                refused = server.send_message(_mail(spec, message))
        except (smtplib.SMTPException, OSError) as error:
            code = f" {error.smtp_code}" if isinstance(error, smtplib.SMTPResponseException) else ""
            raise NotSentError(f"the mail server {spec.host}:{spec.port}: {type(error).__name__}{code}") from None
        if refused:
            raise NotSentError(f"the mail server {spec.host}:{spec.port} refused {', '.join(refused)}")

    def _connected(self) -> smtplib.SMTP:
        host, port = self._spec.host, self._spec.port
        if port == smtplib.SMTP_SSL_PORT:
            return smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=self._context)
        return smtplib.SMTP(host, port, timeout=TIMEOUT_S)


def _mail(spec: EmailSpec, message: Message) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = message.subject, spec.sender, ", ".join(spec.to)
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office reply to this
    mail.set_content("\n".join([message.subject, "", *(f"{name}: {text}" for name, text in message.fields.items())]))
    return mail

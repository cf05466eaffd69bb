"""A real SMTP server on loopback, and a certificate for it that only its test trusts."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword


class Mailed(NamedTuple):
    """What the server took."""

    sender: str
    to: list[str]
    content: str
    over_tls: bool
    user: str | None


class Mailbox:
    """aiosmtpd's handler: keeps what comes; signs in `sweeps` with `hunter22` only."""

    def __init__(self) -> None:
        self.mails: list[Mailed] = []
        self.user: str | None = None

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        content = envelope.content.decode()
        mailed = Mailed(envelope.mail_from, envelope.rcpt_tos, content, session.ssl is not None, self.user)
        self.mails.append(mailed)
        return "250 OK"

    def sign_in(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.user = data.login.decode()
        # Not handled: aiosmtpd then tells a refusal in its own words.
        return AuthResult(success=data == LoginPassword(b"sweeps", b"hunter22"), handled=False)


@contextmanager
def mail_server(port: int, certificate: Path | None = None) -> Iterator[Mailbox]:
    """A server while the block runs: with STARTTLS and a login where it has a certificate."""
    box, more = Mailbox(), dict[str, Any]()
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        more = {"tls_context": context, "require_starttls": True, "auth_required": True, "authenticator": box.sign_in}
    controller = Controller(box, hostname="127.0.0.1", port=port, **more)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()


def write_certificate(folder: Path) -> Path:
    """A key and a self-signed certificate for 127.0.0.1, in one file."""
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=mail "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out certificate.pem"
    )
    subprocess.run(words.split(), cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text(), encoding="utf-8")
    return both

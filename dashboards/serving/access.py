"""Who may open a dashboard: the address it listens on, the host names it answers to, and its token.

The token is made anew at each start, or comes from an environment variable or a file. Every user of a machine can read
command lines (`ps`), so no option takes the token itself.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.config.secret_file import read_secret_file
from trials.errors import ConfigError, RefusedError

TOKEN_VARIABLE = "PERMAFROST_DASHBOARD_TOKEN"  # noqa: S105, the name of a variable
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8050

_SHORTEST, _LONGEST = 16, 1024  # characters of a token; 16 hexadecimal digits are 64 bits
_TOKEN = re.compile(rf"[!-~]{{{_SHORTEST},{_LONGEST}}}")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))(?:[A-Za-z0-9._~@:+=-]|%[0-9A-Fa-f]{2})+)*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Where a dashboard listens, and to whom it answers.

    Attributes:
        host: The address or name it is bound to; `localhost` is 127.0.0.1.
        port: 0 takes any free port.
        token: What a visitor must present; None needs a loopback address.
        token_is_new: Whether the token was just made, so that the printed address has to contain it.
        trusted_hosts: Further names in `Host` headers, besides the loopback names and `host`.
        url_prefix: The path below which visitors find it, as `/user/ana/proxy/8050`; empty for what a proxy on this
            machine says in `X-Forwarded-Prefix`.

    Raises:
        ConfigError: an invalid port, name, token or prefix; all problems are reported together.
        RefusedError: an address that other machines can reach, without a token.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str | None = field(default=None, repr=False)
    token_is_new: bool = False
    trusted_hosts: tuple[str, ...] = ()
    url_prefix: str = ""

    def __post_init__(self) -> None:
        problems = [
            f"trusted host: {name!r} is neither a name nor an address."
            for name in self.trusted_hosts
            if not _is_name(name)
        ]
        if not _is_name(self.host):
            problems.insert(0, f"host: {self.host!r} is neither a name nor an address.")
        if not 0 <= self.port <= 65535:
            problems.append(f"port: {self.port} is not a port; use 1 to 65535, or 0 for a free one.")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            problems.append(
                f"token: it has {len(self.token)} characters; {_SHORTEST} to {_LONGEST} visible ASCII characters are "
                "needed, and no space."
            )
        if clean_prefix(self.url_prefix) is None:
            problems.append(
                f"url prefix: {self.url_prefix!r} is not one; a path like /user/ana/proxy/8050 is needed, of letters, "
                "digits, %XX and any of -._~@:+=, without . and ..."
            )
        if problems:
            raise ConfigError(problems)
        if self.token is None and not self.on_loopback:
            raise RefusedError(
                f"host: {self.host!r} can be reached from other machines, and so needs a token. Leave out --no-token, "
                "or listen on 127.0.0.1 and connect through ssh -C -L 8050:127.0.0.1:8050 THIS_MACHINE."
            )

    @property
    def address(self) -> str:
        """The address that the socket is bound to."""
        return DEFAULT_HOST if self.host == "localhost" else self.host

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect. Names are not resolved, except `localhost` (RFC 6761)."""
        address = _ip_address(self.address)
        return address is not None and address.is_loopback

    @property
    def names(self) -> frozenset[str]:
        """The `Host` headers it answers to, in lower case, without a port.

        Any other name is refused: a foreign site could let its name resolve to 127.0.0.1 and would then share the
        dashboard's origin (DNS rebinding).
        """
        names = {"localhost", "127.0.0.1", self.host, *self.trusted_hosts}
        if ":" in self.host:
            names.add("::1")
        return frozenset(f"[{name}]" if ":" in name else name.lower() for name in names)


def read_access(
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    token_file: Path | None = None,
    no_token: bool = False,
    trusted_hosts: tuple[str, ...] = (),
    url_prefix: str = "",
    environ: Mapping[str, str] = os.environ,
) -> Access:
    """The access from options and environment; a token file takes precedence over the variable.

    Raises:
        ConfigError: as `Access`, or the token file cannot be read, or is given though no token is wanted.
        RefusedError: as `Access`, or other users of this machine can read the token file.
    """
    if no_token and token_file is not None:
        raise ConfigError("--no-token and --token-file exclude each other; leave out one of them.")
    token = None if no_token else environ.get(TOKEN_VARIABLE) or None
    if token_file is not None:
        token = read_secret_file(token_file, name="token file", most_bytes=_LONGEST + 3)
    is_new = token is None and not no_token
    return Access(
        host=host,
        port=port,
        token=secrets.token_urlsafe(24) if is_new else token,
        token_is_new=is_new,
        trusted_hosts=trusted_hosts,
        url_prefix=url_prefix,
    )


def clean_prefix(prefix: str) -> str | None:
    """A path without a slash at its end, empty for the root; None if it is none that pages can be served below."""
    prefix = prefix.removesuffix("/")
    return prefix if len(prefix) <= 512 and _PREFIX.fullmatch(prefix) else None


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text.lower())) or _ip_address(text) is not None


def _ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

"""Who may reach a dashboard: the address it is bound to, the names it answers to, and the token it asks for.

The token comes from an environment variable or a file. A command line is seen by every user of a machine (`ps`), so
there is no option for the token itself.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trials.errors import ConfigError, RefusedError

TOKEN_VARIABLE = "PERMAFROST_DASHBOARD_TOKEN"  # noqa: S105, the name of a variable
SHORTEST_TOKEN = 16  # characters; of hexadecimal digits these are 64 bits
LONGEST_TOKEN = 1024
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8050

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_TOKEN = re.compile(rf"[!-~]{{{SHORTEST_TOKEN},{LONGEST_TOKEN}}}")
_HOW = (
    f"Put a token into the environment variable {TOKEN_VARIABLE} or into a file (--token-file), made for example with "
    "python -c 'import secrets; print(secrets.token_urlsafe(32))', or stay on 127.0.0.1 and reach it through "
    "ssh -C -L 8050:127.0.0.1:8050 THIS_MACHINE."
)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Where a dashboard listens and whom it answers.

    Attributes:
        host: The address or name it is bound to; `localhost` is 127.0.0.1.
        port: 0 takes any free port.
        token: What a visitor must show; None asks for nothing, which only a loopback address may.
        trusted_hosts: Names by which visitors reach it (`Host` headers), besides the loopback names and `host`.

    Raises:
        ConfigError: A port, name or token that cannot be one; all of them are told.
        RefusedError: An address that other machines reach, and no token.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    token: str | None = field(default=None, repr=False)
    trusted_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = [
            f"trusted host: {name!r} is no name and no address." for name in self.trusted_hosts if not _name(name)
        ]
        if not _name(self.host):
            problems.insert(0, f"host: {self.host!r} is no name and no address.")
        if not 0 <= self.port <= 65535:
            problems.append(f"port: {self.port} is none; 1 to 65535, or 0 for any free one.")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            problems.append(
                f"token: it has {len(self.token)} characters; {SHORTEST_TOKEN} to {LONGEST_TOKEN} visible ASCII "
                "characters are needed, and no space."
            )
        if problems:
            raise ConfigError(problems)
        if self.token is None and not self.on_loopback:
            raise RefusedError(f"host: {self.host!r} lets other machines in, and no token is set. {_HOW}")

    @property
    def address(self) -> str:
        """What the socket is bound to."""
        return DEFAULT_HOST if self.host == "localhost" else self.host

    @property
    def on_loopback(self) -> bool:
        """Whether nobody but this machine can connect. A name is not looked up: only `localhost` is sure (RFC 6761)."""
        address = _address(self.address)
        return address is not None and address.is_loopback

    @property
    def names(self) -> frozenset[str]:
        """The `Host` headers it answers to, in lower case, without a port.

        Any other name is refused: a site of a stranger may let its own name point to 127.0.0.1, and would then be of
        the same origin as the dashboard (DNS rebinding).
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
    trusted_hosts: tuple[str, ...] = (),
    environ: Mapping[str, str] = os.environ,
) -> Access:
    """The access that options and environment ask for; a file's token goes before the variable's.

    Raises:
        ConfigError: What `Access` raises, or a file that cannot be read.
        RefusedError: What `Access` raises, or a file that other users of this machine can read.
    """
    token = environ.get(TOKEN_VARIABLE) or None
    if token_file is not None:
        token = _token_of(token_file)
    return Access(host=host, port=port, token=token, trusted_hosts=trusted_hosts)


def _token_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(LONGEST_TOKEN + 3).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"token file: {path} cannot be read: {error.strerror}.", exit_code=3) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise RefusedError(f"token file: {path} is open to other users of this machine; chmod 600 {path}")
    return text


def _name(text: str) -> bool:
    return bool(_NAME.fullmatch(text.lower())) or _address(text) is not None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

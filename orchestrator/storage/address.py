"""Addresses of stores in object storage, and which parts of them may be shown.

s3://bucket/prefix?endpoint_override=http://127.0.0.1:9000&region=us-east-1
gs://bucket/prefix

Credentials come from the environment or the provider's own files, never from an address: addresses are printed, and end
up in shell histories and in the output of commands.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from trials.errors import ConfigError

_ENDPOINT = r"(https?://)?(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:\d+)?/?"
_RULES = {"endpoint_override": _ENDPOINT, "region": r"[a-z0-9-]+", "scheme": r"https?"}
_OPTIONS = {"s3": ("endpoint_override", "region", "scheme"), "gs": ("endpoint_override", "scheme")}
_WAY_OUT = {
    "s3": "Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or ~/.aws/credentials only.",
    "gs": "Credentials come from the file that GOOGLE_APPLICATION_CREDENTIALS names only.",
}
_HIDDEN = "***"


@dataclass(frozen=True)
class Address:
    """A location on a storage service.

    Attributes:
        scheme: s3 or gs.
        host: The bucket.
        path: The prefix below it, without leading and trailing slashes; may be empty.
        options: `endpoint_override` (host[:port], optionally with http://), `region`, `scheme`.
    """

    scheme: str
    host: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def without_options(self) -> str:
        """The address as errors show it."""
        return f"{self.scheme}://{self.host}/{self.path}".rstrip("/")

    def __str__(self) -> str:
        return self.without_options + (f"?{urlencode(self.options, safe=':/')}" if self.options else "")


def is_address(text: str) -> bool:
    """Whether this is an address rather than a folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text) is not None


def local_path(path: str | Path) -> Path:
    """The absolute path of a folder that a person names; it need not exist. Raises ConfigError: no file can have it."""
    try:
        found = Path(path).expanduser().resolve()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            found.stat()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop, an unknown user's home, a zero byte
        raise ConfigError(f"{str(path)!r:.80}: not a path ({getattr(error, 'strerror', None) or error}).") from error
    return found


def parse_address(text: str) -> Address:
    """Parse an address.

    Raises:
        ConfigError: an unknown scheme, no bucket, credentials in it, or an unknown option. The message repeats nothing
            that could be a secret.
    """
    scheme, _, rest = text.partition(":/")
    scheme, rest = scheme.lower(), rest.removeprefix("/")
    if scheme not in _OPTIONS or not text.partition(":/")[2].startswith("/"):
        raise ConfigError(f"store {scheme}:/...: must be a folder, s3://bucket/prefix or gs://bucket/prefix.")
    rest, _, query = rest.partition("?")
    host, _, path = rest.partition("/")
    if "@" in rest:
        raise ConfigError(
            f"store {scheme}://{_HIDDEN}@{rest.rpartition('@')[2]}: no user allowed in an address. {_WAY_OUT[scheme]}"
        )
    path = path.strip("/")
    shown = f"store {scheme}://{host}/{path}"
    if "#" in rest + query or "//" in path:
        raise ConfigError(f"{shown.partition('#')[0]}: must be a plain path. Remove '#' and '//'.")
    if not host:
        raise ConfigError(f"{shown}: has no bucket. Write {scheme}://bucket/prefix.")
    return Address(scheme, host, path, _options(scheme, query, shown))


def _options(scheme: str, query: str, shown: str) -> dict[str, str]:
    names, options = _OPTIONS[scheme], dict[str, str]()
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in names:
            # Only what looks like the name of an option is repeated: it may be a misplaced key.
            shown_name = repr(name) if re.fullmatch(r"[a-z_]{1,20}", name) else "a part after '?'"
            allowed = ", ".join(names) or "none"
            raise ConfigError(f"{shown}: unknown option {shown_name}. Known: {allowed}. {_WAY_OUT[scheme]}")
        if not re.fullmatch(_RULES[name], value):
            form = {"endpoint_override": "host:port or http://host:port", "scheme": "http or https"}
            raise ConfigError(f"{shown}: {name} must be {form.get(name, 'a name such as us-east-1')}.")
        options[name] = value
    return options


def endpoint_url(address: Address) -> str | None:
    """The URL of the service of an address, such as http://127.0.0.1:9000; None for the provider's own.

    An S3 address without `endpoint_override` follows AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL.

    Raises:
        ConfigError: one of these variables is not a valid endpoint.
    """
    given, source = address.options.get("endpoint_override"), ""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if address.scheme == "s3" else ():
        given, source = (given, source) if given else (os.environ.get(name), name)
    if not given:
        return None
    if not re.fullmatch(_ENDPOINT, given):
        raise ConfigError(f"{source}: must be http://host:port, without a user or a path.")
    scheme, _, host = given.rstrip("/").rpartition("://")
    return f"{address.options.get('scheme') or scheme or 'https'}://{host}"


def scrub(message: str) -> str:
    """A library's message with everything that looks like a secret replaced."""
    secrets = [value for name, value in os.environ.items() if re.search(r"SECRET|TOKEN|PASSWORD|ACCESS_KEY", name)]
    for value in sorted(secrets, key=len, reverse=True):
        if len(value) >= 4:
            message = message.replace(value, _HIDDEN)
    for pattern in _KEYS:
        message = re.sub(pattern, _HIDDEN, message)
    return message


_KEYS = (
    r"(?<=//)[^/@\s]+(?=@)",  # a user and a password before a host
    r"(?:A3T[A-Z0-9]|AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}",  # AWS access key ids
    r"(?i)(?<=signature=)[0-9a-z%/+=]+|(?<=token=)[^&\s'\"]+|(?<=bearer )[^\s'\"]+",
    r"ya29\.[\w.-]+",  # Google OAuth tokens
    r"(?<![\w/+])(?=[A-Za-z/+]*\d)(?=[\da-z/+]*[A-Z])(?=[\dA-Z/+]*[a-z])[\w/+]{32,}={0,2}",  # 32 of all three kinds
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
)

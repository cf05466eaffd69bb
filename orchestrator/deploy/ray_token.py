"""Ray's token authentication as the environment sets it: whether it is on, and the token's file.

Ray 2.60 takes any value of RAY_AUTH_MODE that it does not know for `disabled`, and writes `~/.ray/auth_token` with the
mode that the umask leaves, usually 0644: whoever reads it can run code as its owner. So both are checked before Ray is
asked to do anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from orchestrator.config.secret_file import read_secret_file
from trials.errors import ConfigError

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
NO_TOKEN = f"{MODE}=disabled, so Ray asks for no token: whoever reaches its ports can run code as you"
_MOST_BYTES = 1 << 16


def is_required(environment: Mapping[str, str]) -> bool:
    """Whether Ray's processes are to require a token, as they do unless RAY_AUTH_MODE is `disabled`.

    Raises:
        ConfigError: another value than `token` and `disabled`.
    """
    mode = environment.get(MODE)
    if mode is not None and mode.lower() not in ("token", "disabled"):
        raise ConfigError(f"{MODE}={mode!r:.40} is neither token nor disabled; Ray would require no token.")
    return mode is None or mode.lower() == "token"


def token_file(environment: Mapping[str, str]) -> Path | None:
    """The file that Ray reads its token from; None if the environment holds the token, or there is no file.

    Raises:
        ConfigError: RAY_AUTH_TOKEN_PATH names no file that can be read.
        RefusedError: other users can read the file, and it is this user's, who can change that. The mode of somebody
            else's file, such as a mounted secret, is up to them.
    """
    if environment.get(TOKEN):
        return None
    given = environment.get(TOKEN_PATH)
    path = Path(given or f"{environment.get('HOME', '')}/.ray/auth_token")
    is_there = os.path.isfile(path)  # noqa: PTH113  # `Path` raises if the name is too long
    if given and not (is_there and os.access(path, os.R_OK)):
        raise ConfigError(
            f"{TOKEN_PATH} names {path}, which cannot be read. Write the cluster's token there (`ray get-auth-token` "
            "shows it on its head), or unset the variable.",
            exit_code=3,
        )
    if not is_there:
        return None
    if path.stat().st_uid == os.getuid():
        read_secret_file(path, name="Ray's token", most_bytes=_MOST_BYTES)
    return path


def check_client_token(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a token is sent to the cluster that is joined. Raises as `is_required` and `token_file` do."""
    if not is_required(environment):
        return False
    token_file(environment)
    return True

"""The folder of a local Ray: sockets, logs, spilled objects and the token, closed to other users.

`/tmp/pf-UID/0` belongs to the first launch of a user, `/tmp/pf-UID/1` to a second at the same time, and so on. A lock
tells which are in use, so a launch removes what the one before left, even one that was killed. Ray opens its folder to
all users, so the one above it is closed. The names are short because the paths of sockets have to be.

Whether Ray asks for a token, and where it lies, is what the environment sets. Ray 2.60 takes any value of RAY_AUTH_MODE
that it does not know for `disabled`, and writes `~/.ray/auth_token` with the mode that the umask leaves, usually 0644:
whoever reads it can run code as its owner. So both are checked before Ray is asked to do anything.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from orchestrator.config.secret_file import read_secret_file
from trials.errors import ConfigError, MissingError, RefusedError

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


TOKEN_NAME = "token"  # noqa: S105  # the name of a file
LONGEST_ADDRESS = 107  # bytes of a Unix socket's path


@contextmanager
def session_folder(environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """An empty folder for one launch, which no other user can enter; its files stay until the next launch.

    Raises:
        ConfigError: as `user_folder`.
        MissingError: as `user_folder`, or it cannot be written.
        RefusedError: somebody else has made a folder of that name.
    """
    user = _private_folder(user_folder(environment))
    for number in itertools.count():
        lock = FileLock(user / f"{number}.lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            continue
        try:
            folder = user / str(number)
            shutil.rmtree(folder, ignore_errors=True)
            yield _private_folder(folder)
        finally:
            lock.release()
        return


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Processes that start in the block have their temporary files in a folder, which is made if it is not there.

    Python and Chromium make sockets among them, such as one for each module of Ray's dashboard. In a job's own folder
    (Slurm's, a Mac's) the name of a socket may be too long.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    tempfile.gettempdir()  # remembers this process's own
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before


def new_token(folder: Path) -> Path:
    """A file with a new token, which only this user can read, in a folder of `session_folder`."""
    path = folder / TOKEN_NAME
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    return path


def user_folder(environment: Mapping[str, str]) -> Path:
    """The folder that holds those of this user's launches.

    It lies in RAY_TMPDIR, else in the folder for temporary files, else in `/tmp` if Ray cannot use that one's name.

    Raises:
        ConfigError: the name of RAY_TMPDIR is too long for Ray's sockets, or has characters that Ray cannot use.
        MissingError: no folder for temporary files can be written.
    """
    return _root(environment).absolute() / f"pf-{os.getuid()}"


def _root(environment: Mapping[str, str]) -> Path:
    if given := environment.get("RAY_TMPDIR"):
        if excess := _excess(given):
            raise ConfigError(
                f"RAY_TMPDIR={given[:40]}...: the name is {excess} bytes too long for Ray's sockets, whose paths have "
                f"at most {LONGEST_ADDRESS}. Name a shorter folder, or unset it."
            )
        if not _is_fit(given):
            raise ConfigError(
                f"RAY_TMPDIR={given}: Ray takes no path with quotes, backslashes or letters beyond ASCII here. Name "
                "another folder, or unset it."
            )
        return Path(given)
    try:
        usual = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise MissingError(f"no folder for temporary files can be written ({error}); name one in RAY_TMPDIR.") from None
    return Path("/tmp") if _excess(usual) or not _is_fit(usual) else usual  # noqa: S108  # a private folder is made in it


def _is_fit(root: str | Path) -> bool:
    """Whether Ray, which passes the name on in command lines and in ASCII, can use it."""
    return re.fullmatch(r"[\w /.,:;=+@%~^()\[\]{}!#&-]*", str(Path(root).absolute()), re.ASCII) is not None


def _excess(root: str | Path) -> int:
    """Bytes by which the longest name of a socket would be too long."""
    session = f"session_2026-01-01_00-00-00_000000_{os.getpid()}"
    socket = f"{Path(root).absolute()}/pf-{os.getuid()}/99/{session}/sockets/dash_MetricsHead"
    return max(0, len(os.fsencode(socket)) - LONGEST_ADDRESS)


def _private_folder(path: Path) -> Path:
    """The folder, made if it is not there, and closed to others."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode):
            raise RefusedError(f"{path} is not a folder of this user; remove it, or name another place in RAY_TMPDIR.")
        path.chmod(0o700)
    except OSError as error:
        raise MissingError(f"{path} cannot be written ({error.strerror}); name another place in RAY_TMPDIR.") from error
    return path

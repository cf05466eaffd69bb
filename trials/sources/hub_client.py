"""Repositories of the hub: their names, what its cache holds of them, and its libraries without output of their own."""

from __future__ import annotations

import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trials.errors import DataError, ModelError
from trials.outside.plain_files import progress
from trials.sources.download import safe_address
from trials.sources.source import near_hint
from trials.starter import BUNDLED_TREEBANKS, STARTER

if TYPE_CHECKING:
    from huggingface_hub.utils.tqdm import tqdm

_TIMEOUT_S = 30.0  # of a look-up, which is one small answer
COMMIT = re.compile(r"[0-9a-f]{40}")
MAIN = "main"  # the branch that a repository's newest commit is on
_REPO = re.compile(r"([\w-][\w.-]*/)?\w([\w.-]*\w)?", re.ASCII)
_LONGEST_PART = 96  # characters of an owner or a name, as the library has it
_LOG_IN = "log in (`hf auth login`, or set HF_TOKEN)"
_STATUS = {
    401: f"the token of this machine is not accepted (HTTP 401). Remove it, or {_LOG_IN} again.",
    403: f"access is refused (HTTP 403). Use a token with the right to read it: {_LOG_IN}.",
    429: f"too many requests (HTTP 429). Wait some minutes, or {_LOG_IN}, which allows more.",
}


@dataclass(frozen=True)
class Repo:
    """A repository of the hub.

    Attributes:
        kind: `datasets` or `models`, as its folders are called.
        name: `owner/name`, or the name alone of the oldest ones, e.g. `bert-base-cased`.
        revision: Commit, tag, branch or `refs/...`.
    """

    kind: str
    name: str
    revision: str = MAIN

    def __post_init__(self) -> None:
        if not is_repo_name(self.name):
            example = "nyu-mll/glue" if self.kind == "datasets" else "FacebookAI/roberta-base"
            raise self.error(f"{self.name!r} is not a name on the hub, which is OWNER/NAME, e.g. {example}.")
        if not self.revision:
            raise self.error(f"{self}: the revision is empty. Give a commit, a tag or a branch, e.g. main.")

    def __str__(self) -> str:
        return f"{self.kind.removesuffix('s')} {self.name}"

    @property
    def error(self) -> type[DataError] | type[ModelError]:
        """The exception class of its errors."""
        return DataError if self.kind == "datasets" else ModelError

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, which never changes."""
        return is_commit(self.revision)

    @property
    def hub_arguments(self) -> dict[str, Any]:
        """Kind and revision, as the hub's library takes them."""
        return {"repo_type": self.kind.removesuffix("s"), "revision": self.revision}

    @property
    def folder_name(self) -> str:
        """The name as one folder; the hub allows no `--` in names."""
        return self.name.replace("/", "--")

    @property
    def source(self) -> str:
        """Where files of this repository came from; its revision is a commit."""
        return f"hub:{self.name}@{self.revision}"

    @property
    def near_hint(self) -> str:
        """The file, folder or known name that may have been meant, as a sentence; empty if there is none."""
        known_names = [STARTER] if self.kind == "models" else BUNDLED_TREEBANKS
        return "" if Path(self.name).exists() else near_hint(self.name, known_names)


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit, which never changes."""
    return revision is not None and COMMIT.fullmatch(revision) is not None


def inexact_revision(what: str, revision: str | None) -> tuple[str, str] | None:
    """What may have another version tomorrow, with its revision, and which version it has now; None of a commit."""
    if is_commit(revision):
        return None
    return (f"{what}@{revision}", "commit") if revision else (what, "newest commit")


def is_repo_name(name: str) -> bool:
    """Whether a repository of the hub can have this name."""
    is_allowed = _REPO.fullmatch(name) and ".." not in name and "--" not in name and not name.endswith(".git")
    return bool(is_allowed) and all(len(part) <= _LONGEST_PART for part in name.split("/"))


def cached_snapshots(repo: Repo) -> Iterator[tuple[Repo, Path]]:
    """The cached commits of a repository's revision, each with its folder in the hub's cache.

    A name without owner, as the oldest repositories have, may be there with one.

    Raises:
        DataError, ModelError: the cache has repositories of several owners by a name without owner.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import RevisionResolutionError

    cache, start, names = Path(constants.HF_HUB_CACHE), f"{repo.kind}--", [repo.name]
    if "/" not in repo.name:
        owned = sorted(path.name.removeprefix(start) for path in cache.glob(f"{start}*--{repo.name}"))
        names += [name.replace("--", "/") for name in owned]
        if len(owned) > 1 and not repo.is_pinned:
            raise repo.error(f"{repo}: the cache has several of this name. Say which: {', '.join(names[1:])}.")
    for name in names:
        named = Repo(repo.kind, name, repo.revision)
        with suppress(RevisionResolutionError, OSError, ValueError):
            commit = HfApi().resolve_revision(name, local_files_only=True, **named.hub_arguments).resolved
            if is_commit(commit):
                yield replace(named, revision=commit), cache / f"{start}{named.folder_name}" / "snapshots" / commit


def look_up(repo: Repo) -> tuple[Repo, Any]:
    """A repository by the hub's own name, at the present commit of its revision, and the hub's description of it.

    The hub's cache remembers the commit. Raises what the library does.
    """
    from huggingface_hub import HfApi

    info: Any = HfApi().repo_info(repo.name, timeout=_TIMEOUT_S, **repo.hub_arguments)
    return Repo(repo.kind, info.id, HfApi().resolve_revision(info.id, **repo.hub_arguments).resolved), info


@contextmanager
def explain_hub_errors(repo: Repo) -> Iterator[None]:
    """Silence the hub's libraries, and translate their errors in calls about one repository.

    Raises:
        DataError, ModelError: by the repository's kind; not found, gated, no connection, ...
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import httpx

    _silence()
    try:
        yield
    except (httpx.HTTPError, OSError, HFValidationError) as error:
        raise repo.error(explain(error, repo)) from error


def explain(error: BaseException, repo: Repo) -> str:
    """The message of an error: what went wrong and what to do, without any token."""
    from huggingface_hub import constants, errors
    from huggingface_hub.utils import httpx

    cause: BaseException | None = error  # the libraries wrap errors
    while cause and not isinstance(cause, (errors.HfHubHTTPError, httpx.TransportError, errors.OfflineModeIsEnabled)):
        cause = cause.__cause__
    error = cause or error
    hub, reason = safe_address(constants.ENDPOINT), without_token(str(error)).rstrip(".") or type(error).__name__
    page = f"{hub}/{'datasets/' if repo.kind == 'datasets' else ''}{repo.name}"
    status = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else 0
    no_path = "" if Path(repo.name).exists() else f" Nor is it a file or folder here.{repo.near_hint}"
    words = {
        errors.GatedRepoError: f" is gated: accept its terms on its page, {page}, and {_LOG_IN}.",
        errors.RevisionNotFoundError: (
            f" has no revision {repo.revision!r}. Its branches and tags are at {page}/tree/main."
        ),
        errors.RepositoryNotFoundError: (
            f" is not at {hub}, or is private.{no_path} Check the name; if it is private, {_LOG_IN}."
        ),
        errors.OfflineModeIsEnabled: (
            " is not on this machine, and HF_HUB_OFFLINE forbids the download. Unset it, or fetch first."
        ),
        errors.HfHubHTTPError: f", at {hub}: "
        + _STATUS.get(status, f"unexpected answer (HTTP {status}). Try again later."),
        httpx.TransportError: (
            f": cannot reach {hub} ({reason}). Check the network, the proxy settings and HF_ENDPOINT, or work with "
            f"what is on this machine (--offline).{no_path}"
        ),
    }
    text = next((phrase for kind, phrase in words.items() if isinstance(error, kind)), None)
    if text is None and isinstance(error, OSError) and error.strerror:  # the system's own, not one of a library
        text = f": {error.filename or constants.HF_HOME}: {error.strerror}. Fix this, or set HF_HOME to another folder."
    return f"{repo}{text or f' cannot be read: {reason}. Use another revision, or give the files themselves.'}"


def without_token(text: str) -> str:
    """The text of a library's error on one line, with tokens, user names and passwords replaced by `***`."""
    from huggingface_hub import get_token

    if token := get_token():
        text = text.replace(token, "***")
    text = re.sub(r"(?<=//)[^/@\s]+(?=@)", "***", text)
    return " ".join(re.sub(r"hf_\w{8,}", "***", text).split())


def _silence() -> None:
    """Turn the libraries' progress bars and log messages off in this process; what we say of downloads is enough."""
    from huggingface_hub.utils.tqdm import disable_progress_bars

    for library in ("huggingface_hub", "datasets"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    with warnings.catch_warnings(action="ignore"):  # where the environment demands the bars
        disable_progress_bars()
        if datasets := sys.modules.get("datasets"):  # a model needs none of it
            datasets.disable_progress_bars()


def bar_class(name: str = "") -> type[tqdm]:
    """A progress bar class for the hub's downloads that draws nothing and tells the bytes of `name`, if given."""
    from huggingface_hub.utils.tqdm import tqdm

    lock, hear = threading.Lock(), progress.get()  # a snapshot's files come in threads

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # A snapshot has three bars: bytes written, bytes received, and files. The first is reported.
            self.reports = name and kwargs.get("unit") == "B" and not str(kwargs.get("name")).endswith(".transfer")
            start: Any = super().__init__  # untyped
            start(*args, **kwargs | {"disable": True})
            self.n = kwargs.get("initial") or 0

        def update(self, n: float | None = 1) -> None:
            with lock:
                self.n += int(n or 0)
                if self.reports:
                    hear("download", name, self.n, self.total or None)

    return Bar

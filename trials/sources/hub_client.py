"""Calls of the hub's two libraries: without their output, with our progress display and our error messages."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from trials.errors import DataError, ModelError
from trials.outside.plain_files import read_text
from trials.sources.cache import Progress, cache_root, writing
from trials.sources.download import shown
from trials.sources.source import near_here
from trials.starter import BUNDLED_TREEBANKS, STARTER

if TYPE_CHECKING:
    from huggingface_hub.utils.tqdm import tqdm

TIMEOUT_S = 30.0
COMMIT = re.compile(r"[0-9a-f]{40}")
MAIN = "main"  # the branch that a repository's newest commit is on
_REPO = re.compile(r"([\w-][\w.-]*/)?\w([\w.-]*\w)?", re.ASCII)
_LONGEST_PART = 96  # characters of an owner or a name, as the library has it
_LIBRARIES = ("huggingface_hub", "datasets")
LOG_IN = "log in (`hf auth login`, or set HF_TOKEN)"


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
    def folder_name(self) -> str:
        """The name as one folder; the hub allows no `--` in names."""
        return self.name.replace("/", "--")

    @property
    def source(self) -> str:
        """Where files of this repository came from; its revision is a commit."""
        return f"hub:{self.name}@{self.revision}"

    def remembered(self) -> Repo | None:
        """The repository, under the hub's own name for it, at the commit of the revision when it was last fetched
        completely; None if it never was.
        """
        try:
            commit, *name = read_text(self.memory).split()
        except (OSError, ValueError):
            return None
        hub_name = name[0] if name else self.name  # older files hold a commit alone
        return Repo(self.kind, hub_name, commit) if COMMIT.fullmatch(commit) and is_repo_name(hub_name) else None

    def remember(self, at: Repo) -> None:
        """Record for `remembered` that this revision is a commit of a repository, and is complete in the cache."""
        for repo in {self, Repo(self.kind, self.name, at.revision), at}:
            with writing(repo.memory):
                repo.memory.parent.mkdir(parents=True, exist_ok=True)
                part = repo.memory.with_suffix(f".{os.getpid()}.part")
                part.write_text(f"{at.revision} {at.name}\n", encoding="ascii")
                part.replace(repo.memory)

    @property
    def memory(self) -> Path:
        """The file that `remember` writes."""
        name = f"{quote(self.revision, safe='')}.commit"
        return cache_root() / "hub" / "refs" / self.kind / self.folder_name / name


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a commit, which never changes."""
    return revision is not None and COMMIT.fullmatch(revision) is not None


def is_repo_name(name: str) -> bool:
    """Whether a repository of the hub can have this name."""
    is_allowed = _REPO.fullmatch(name) and ".." not in name and "--" not in name and not name.endswith(".git")
    return bool(is_allowed) and all(len(part) <= _LONGEST_PART for part in name.split("/"))


def near_repo(repo: Repo) -> str:
    """The same for a name that may have been meant as one of this machine; empty if a path of this machine has it."""
    names = [STARTER] if repo.kind == "models" else BUNDLED_TREEBANKS
    return "" if Path(repo.name).exists() else near_here(repo.name, names)


def _no_path(repo: Repo) -> str:
    return "" if Path(repo.name).exists() else f" Nor is it a file or folder here.{near_repo(repo)}"


@contextmanager
def calling(repo: Repo) -> Iterator[None]:
    """Silence the hub's libraries during calls about one repository, and translate their errors.

    Raises:
        DataError, ModelError: by the repository's kind; not found, gated, no connection, ...
    """
    import httpx2
    from huggingface_hub.errors import HFValidationError

    try:
        with silence():
            yield
    except (httpx2.HTTPError, OSError, HFValidationError) as error:
        raise repo.error(explain(error, repo)) from error


def explain(error: BaseException, repo: Repo) -> str:
    """The message of an error: what went wrong and what to do, without any token."""
    import httpx2
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    error = root_cause(error, (HfHubHTTPError, httpx2.TransportError, OfflineModeIsEnabled))
    hub = shown(constants.ENDPOINT)
    page = f"{hub}/{'datasets/' if repo.kind == 'datasets' else ''}{repo.name}"
    match error:
        case GatedRepoError():
            return f"{repo} is gated: accept its terms on its page, {page}, and {LOG_IN}."
        case RevisionNotFoundError():
            return f"{repo} has no revision {repo.revision!r}. Its branches and tags are at {page}/tree/main."
        case RepositoryNotFoundError():
            return f"{repo} is not at {hub}, or is private.{_no_path(repo)} Check the name; if it is private, {LOG_IN}."
        case OfflineModeIsEnabled():
            return f"{repo} is not on this machine, and HF_HUB_OFFLINE forbids the download. Unset it, or fetch first."
        case HfHubHTTPError():
            return f"{repo}: {status_message(error.response.status_code, hub)}"
        case httpx2.TransportError():
            reason = without_token(str(error)) or type(error).__name__
            return (
                f"{repo}: cannot reach {hub} ({reason}). Check the network, the proxy settings and HF_ENDPOINT, "
                f"or work with what is on this machine (--offline).{_no_path(repo)}"
            )
        case OSError(strerror=str() as reason):  # the system's own, not one that a library made
            return (
                f"{repo}: {error.filename or constants.HF_HOME}: {reason}. Fix this, or set HF_HOME to another folder."
            )
    reason = without_token(str(error)).rstrip(".")
    return f"{repo} cannot be read: {reason}. Use another revision, or give the files themselves."


def root_cause(error: BaseException, kinds: tuple[type[BaseException], ...]) -> BaseException:
    """The first exception in the chain of causes that is of one of these kinds; the libraries wrap errors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, kinds):
            return cause
        cause = cause.__cause__
    return error


def status_message(status: int, hub: str) -> str:
    """What a status that is no success means and what to do, for a hub at this address."""
    match status:
        case 401:
            return f"{hub} does not accept the token of this machine (HTTP 401). Remove it, or {LOG_IN} again."
        case 403:
            return f"{hub} refuses access (HTTP 403). Use a token with the right to read it: {LOG_IN}."
        case 429:
            return f"too many requests to {hub} (HTTP 429). Wait some minutes, or {LOG_IN}, which allows more."
    return f"{hub} answered HTTP {status}. Try again later; the download resumes where it stopped."


def without_token(text: str) -> str:
    """The text of a library's error on one line, with tokens, user names and passwords replaced by `***`."""
    from huggingface_hub import get_token

    if token := get_token():
        text = text.replace(token, "***")
    text = re.sub(r"(?<=//)[^/@\s]+(?=@)", "***", text)
    return " ".join(re.sub(r"hf_\w{8,}", "***", text).split())


def card_licence(card: Any) -> str | None:
    """The licence in a repository's card; None if it states none."""
    stated = getattr(card, "license", None)
    if isinstance(stated, list):
        return ", ".join(map(str, stated)) or None
    return str(stated) if stated else None


@contextmanager
def silence() -> Iterator[None]:
    """Turn the libraries' progress bars and log messages off, and restore them afterwards.

    The environment may demand the bars (`..._DISABLE_PROGRESS_BARS=0`).
    """
    from huggingface_hub import constants
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    with ExitStack() as after:
        for logger in map(logging.getLogger, _LIBRARIES):
            after.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        if constants.HF_HUB_DISABLE_PROGRESS_BARS is None and not are_progress_bars_disabled():
            after.callback(enable_progress_bars)
            disable_progress_bars()
        datasets = sys.modules.get("datasets")  # a model needs none of it
        is_free = datasets and datasets.config.HF_DATASETS_DISABLE_PROGRESS_BARS is None
        if datasets and is_free and datasets.is_progress_bar_enabled():
            after.callback(datasets.enable_progress_bars)
            datasets.disable_progress_bars()
        yield


def bar_class(name: str, progress: Progress) -> type[tqdm]:
    """A progress bar class for the hub's downloads that draws nothing and passes the bytes of `name` to `progress`."""
    from huggingface_hub.utils.tqdm import tqdm

    lock = threading.Lock()  # a snapshot's files come in threads

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # A snapshot has three bars: bytes written, bytes received, and files. The first is reported.
            self.reports = kwargs.get("unit") == "B" and not str(kwargs.get("name")).endswith(".transfer")
            start: Any = super().__init__  # untyped
            start(*args, **kwargs | {"disable": True})
            self.n = kwargs.get("initial") or 0

        def update(self, n: float | None = 1) -> None:
            with lock:
                self.n += int(n or 0)
                if self.reports:
                    progress(name, self.n, self.total or None)

    return Bar

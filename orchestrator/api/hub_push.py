"""Push a model folder to the hub, in one commit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trials.errors import ConfigError, MissingError, ModelError, PermafrostError, RefusedError
from trials.sources.download import shown
from trials.sources.hub_client import (
    LOG_IN,
    TIMEOUT_S,
    Repo,
    calling,
    card_licence,
    root_cause,
    silence,
    status_message,
    without_token,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_ATTRIBUTES = ".gitattributes"  # which the hub itself puts into every new repository


@dataclass(frozen=True)
class PushTarget:
    """A repository of the hub that may be written.

    Attributes:
        name: `owner/name`.
        private: Whether only its owner sees it.
        commit: Its newest commit; None if it was just created.
        files: What it holds, and what a push replaces.
    """

    name: str
    private: bool
    commit: str | None = None
    files: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """Its page."""
        from huggingface_hub import constants

        return f"{shown(constants.ENDPOINT)}/{self.name}"


def open_target(name: str, *, private: bool, overwrite: bool) -> PushTarget:
    """Find or create a repository of models, before anything is trained for it.

    Args:
        name: `owner/name`.
        private: Whether a new one is private, and a public one is refused.
        overwrite: Whether one that holds files may be written; without it only an empty one.

    Raises:
        ConfigError: It is not a name on the hub.
        MissingError: There is no token.
        RefusedError: The repository holds files, or is public.
        ModelError: The hub refuses, or cannot be reached.
    """
    try:
        Repo("models", name)
    except ModelError as error:
        raise ConfigError(f"--push: {error}") from error
    if "/" not in name:
        raise ConfigError(f"--push: {name!r} lacks its owner. Write OWNER/NAME, with your name on the hub.")
    from huggingface_hub.errors import RepositoryNotFoundError

    with _talking(name):
        api = _api()
        try:
            info = api.model_info(name, timeout=TIMEOUT_S)
        except RepositoryNotFoundError:
            api.create_repo(name, private=private)
            return PushTarget(name, private)
        files = tuple(sibling.rfilename for sibling in info.siblings or () if sibling.rfilename != _ATTRIBUTES)
        found = PushTarget(name, bool(info.private), info.sha, files)
    if files and not overwrite:
        raise RefusedError(
            f"{found.address} already holds {len(files)} files. Choose another name, or say --overwrite to replace "
            "them in a new commit."
        )
    if private and not found.private:
        raise RefusedError(f"{found.address} is public. Say --public to push there, or choose another name.")
    return found


def push_folder(folder: Path, target: PushTarget, *, message: str) -> str:
    """Make the files of a folder those of a repository, in one commit; returns the commit.

    Raises:
        ModelError: The hub refuses, or cannot be reached; the folder stays.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    stale = [CommitOperationDelete(path_in_repo=name) for name in target.files if name not in paths]
    added = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(path)) for name, path in paths.items()]
    with _talking(target.name):
        # Not upload_folder, which may make several commits.
        done = _api().create_commit(target.name, [*stale, *added], commit_message=message, parent_commit=target.commit)
    return str(done.oid)


def stated_licence(repo: Repo) -> str | None:
    """The licence that a model of the hub states; None if it states none, or the hub does not tell."""
    from huggingface_hub import HfApi

    try:
        with calling(repo):
            return card_licence(HfApi().model_info(repo.name, revision=repo.revision, timeout=TIMEOUT_S).card_data)
    except PermafrostError:
        return None


def _api() -> HfApi:
    from huggingface_hub import HfApi, get_token

    if not get_token():
        raise MissingError(f"there is no token for the hub: {LOG_IN}, with the right to write.")
    return HfApi(token=True)  # that of HF_TOKEN or the hub's own file, also where reading is told to go without


@contextmanager
def _talking(name: str) -> Iterator[None]:
    """Silence the hub's library, and translate its errors."""
    import httpx2

    try:
        with silence(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its remarks on the card's metadata
            yield
    except (httpx2.HTTPError, OSError, ValueError, RuntimeError) as error:
        # Not from it: what a server says may repeat the token.
        raise ModelError(f"{name} was not pushed: {_explained(error, name)}") from None


def _explained(error: BaseException, name: str) -> str:
    import httpx2
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    error = root_cause(error, (HfHubHTTPError, httpx2.TransportError, OfflineModeIsEnabled))
    hub, owner = shown(constants.ENDPOINT), name.partition("/")[0]
    match error:
        case OfflineModeIsEnabled():
            return "HF_HUB_OFFLINE forbids it. Unset it."
        case HfHubHTTPError():
            match error.response.status_code:
                case 403:
                    return (
                        f"the token of this machine may not write there (HTTP 403). Use one with the right to write "
                        f"repositories of {owner}: {LOG_IN}."
                    )
                case 404:
                    return f"{hub} knows no {owner}, or no such repository (HTTP 404). Check the name after --push."
                case 409 | 412:
                    return "the repository was changed meanwhile. Run the same command again."
                case status if status in (401, 429) or status >= 500:
                    return status_message(status, hub).replace("; the download resumes where it stopped", "")
            return f"{hub} refuses (HTTP {error.response.status_code}): {_said(error)}."
        case httpx2.TransportError():
            return f"cannot reach {hub} ({_said(error)}). Check the network, the proxy settings and HF_ENDPOINT."
    return f"{_said(error)}."


def _said(error: BaseException) -> str:
    return without_token(str(error)).rstrip(".") or type(error).__name__

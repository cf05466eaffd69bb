"""Models of the hub, through its own library and in its cache ($HF_HOME), which other programs share (`hub`)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from trials.errors import ConfigError, ModelError
from trials.models.model_files import INDEX, PICKLE, TOKENIZER_FILES, WEIGHTS, is_shard
from trials.outside.plain_files import digest_of, read_json, read_text
from trials.sources.cache import Progress, forbidden, no_progress
from trials.sources.download import blob_digest
from trials.sources.hub_client import (
    COMMIT,
    MAIN,
    TIMEOUT_S,
    Repo,
    bar_class,
    calling,
    is_commit,
    is_repo_name,
    near_repo,
)
from trials.sources.places.model_draft import MODEL_SOURCES, LocatedModel, ModelDraft, model_shape
from trials.sources.source import FileSource, Keys

CONFIG = "config.json"
_TOKENIZER_FILES = (
    *TOKENIZER_FILES, "tokenizer_config.json", "merges.txt", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")


class FetchedModel(NamedTuple):
    """A model in the hub's cache.

    Attributes:
        folder: Configuration, weights and tokenizer.
        at: The repository, under the hub's own name for it, at the commit.
    """

    folder: Path
    at: Repo


def fetch_model(
    repo: str,
    revision: str | None,
    *,
    allow_pickle: bool,
    offline: bool,
    check: Callable[[Path], object] = lambda folder: None,
    progress: Progress = no_progress,
) -> FetchedModel:
    """A model from the hub's cache or from the hub.

    Where downloads are forbidden, a branch means the commit that the cache has it at, which another program may have
    fetched; `main` the newest commit that is there.

    Args:
        repo: `owner/name`, or the name alone of the oldest ones.
        revision: Commit, tag, branch or `refs/pr/N`; a commit that was fetched before needs no network. None for the
            newest commit.
        allow_pickle: Accept weights that exist only as a pickle, which can run code when it is read.
        check: Called with the folder of configuration and tokenizer before weights are downloaded; may raise.
        progress: Called with the bytes of all weights together, under the repository's name.

    Raises:
        ModelError: not found, gated, no connection, absent where downloads are forbidden, or without weights that may
            be read.
    """
    where = Repo("models", repo, MAIN if revision is None else revision)
    with calling(where):
        barred = forbidden(offline=offline)
        here = barred or (where.is_pinned and where.remembered())
        damaged: list[Path] = []
        if here and (model := _cached_model(where, damaged, allow_pickle=allow_pickle)):
            return model
        if barred:
            why = f"is damaged on this machine ({damaged[0]} has other bytes than were fetched)" if damaged else ""
            raise ModelError(
                f"{where} ({where.revision}) {why or 'is not on this machine'} and {barred} forbids the download; run "
                f"`permafrost data fetch --sweep FILE` or the same command without {barred} first.{near_repo(where)}"
            )
        return _snapshot(where, allow_pickle=allow_pickle, check=check, progress=progress)


def _cached_model(repo: Repo, damaged: list[Path], *, allow_pickle: bool) -> FetchedModel | None:
    """The first whole model among what the cache may hold of a repository; None if there is none.

    `damaged` gets the files for which others were passed over.
    """
    for at in _cached_commits(repo):
        folder = _snapshot_folder(at)
        there = {path.name for path in folder.iterdir()} if (folder / CONFIG).is_file() else set()
        weights = there & {WEIGHTS, INDEX, PICKLE}
        wanted = {*_model_files(repo, there, allow_pickle), *_shards(folder / INDEX)} if weights else set[str]()
        if wanted and wanted <= there:
            if not (broken := _damaged(folder, wanted)):
                return FetchedModel(folder, at)
            damaged += (folder / file for file in broken)
    return None


def _damaged(folder: Path, files: Iterable[str]) -> list[str]:
    """Those of a snapshot's files whose bytes are not what their names in the hub's cache say.

    There a file is stored under its digest: SHA-256 where it is large, else git's. Where links are not supported it
    has its own name, and nothing says what it should be.
    """
    return [file for file in sorted(files) if not _is_whole(folder / file)]


def _is_whole(path: Path) -> bool:
    stored = path.resolve()
    if stored.parent.name != "blobs":
        return True
    try:
        if _SHA256.fullmatch(stored.name):
            return digest_of(path).hex() == stored.name
        return not COMMIT.fullmatch(stored.name) or blob_digest(stored) == stored.name
    except OSError:
        return False


def _cached_commits(repo: Repo) -> Iterator[Repo]:
    """The commits that the cache may have of a repository's revision, the one to prefer first."""
    if repo.is_pinned:
        yield from (Repo(repo.kind, name, repo.revision) for name in _names_in_cache(repo))
        return
    remembered = repo.remembered()
    folders = {name: _repo_folder(name) for name in ([remembered.name] if remembered else _names_in_cache(repo))}
    dated = [(repo.memory.stat().st_mtime, remembered)] if remembered else []
    for name, folder in folders.items():  # of whoever fetched last, this program or another
        ref = folder / "refs" / repo.revision
        with contextlib.suppress(OSError, ValueError):
            commit = read_text(ref).strip()
            if COMMIT.fullmatch(commit):
                dated.append((ref.stat().st_mtime, Repo(repo.kind, name, commit)))
    for _, at in sorted(dated, key=lambda pair: pair[0], reverse=True):
        yield from _cached_commits(at)
    if repo.revision == MAIN:
        for name, folder in folders.items():
            snapshots = [path for path in folder.glob("snapshots/*") if COMMIT.fullmatch(path.name)]
            for path in sorted(snapshots, key=lambda path: path.stat().st_mtime, reverse=True):
                yield Repo(repo.kind, name, path.name)


def _names_in_cache(repo: Repo) -> list[str]:
    """The names under which the hub's cache may hold a repository: the oldest ones have one with and one without owner.

    Raises:
        ModelError: a name without owner could be several.
    """
    owner, _, name = repo.name.rpartition("/")
    if owner:  # a commit is the same under either name, a branch perhaps not
        return [repo.name, *([name] if repo.is_pinned and is_repo_name(name) else [])]
    if _repo_folder(name).is_dir():
        return [name]
    there = [path.name.split("--") for path in sorted(_repo_folder(name).parent.glob(f"models--*--{name}"))]
    names = [f"{parts[1]}/{parts[2]}" for parts in there if len(parts) == 3]
    if len(names) > 1 and not repo.is_pinned:
        raise ModelError(f"{repo}: the cache has several of this name. Say which: {', '.join(names)}.")
    return [candidate for candidate in names if is_repo_name(candidate)]


def _repo_folder(name: str) -> Path:
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="model")


def _snapshot_folder(at: Repo) -> Path:
    return _repo_folder(at.name) / "snapshots" / at.revision


def _snapshot(repo: Repo, *, allow_pickle: bool, check: Callable[[Path], object], progress: Progress) -> FetchedModel:
    from huggingface_hub import HfApi, snapshot_download

    info = HfApi().model_info(repo.name, revision=repo.revision, timeout=TIMEOUT_S)
    at = Repo(repo.kind, info.id, str(info.sha))
    there = {sibling.rfilename for sibling in info.siblings or ()}
    files = _model_files(repo, there, allow_pickle)
    folders = (_snapshot_folder(Repo(at.kind, name, at.revision)) for name in _names_in_cache(at))
    folder = next((folder for folder in folders if all((folder / file).is_file() for file in files)), None)
    if folder is None:
        small = [CONFIG, *(file for file in files if file in _TOKENIZER_FILES)]
        bars = (bar_class(repo.name, no_progress), bar_class(repo.name, progress))
        folder = Path(snapshot_download(at.name, revision=repo.revision, allow_patterns=small, tqdm_class=bars[0]))
        check(folder)
        at = Repo(at.kind, at.name, folder.name)
        snapshot_download(at.name, revision=at.revision, allow_patterns=files, tqdm_class=bars[1])
    wanted = {*files, *_shards(folder / INDEX)}
    missing = sorted(file for file in wanted if not (folder / file).is_file())
    if missing:
        # Without a connection the library returns an incomplete snapshot.
        raise ModelError(f"{repo}: {', '.join(missing)} were not downloaded. Run the same command to resume.")
    if damaged := _damaged(folder, wanted):
        bar = bar_class(repo.name, progress)
        snapshot_download(at.name, revision=at.revision, allow_patterns=damaged, tqdm_class=bar, force_download=True)
        if damaged := _damaged(folder, damaged):
            raise ModelError(f"{folder / damaged[0]}: has other bytes than its digest says. Delete it and try again.")
    repo.remember(at)
    return FetchedModel(folder, at)


def _model_files(repo: Repo, there: Collection[str], allow_pickle: bool) -> list[str]:
    """The files of a repository that a trial reads.

    Raises:
        ModelError: no configuration or weights among them, or only a pickle without `allow_pickle`.
    """
    if CONFIG not in there:
        raise ModelError(f"{repo} has no {CONFIG}; it is not a model that transformers reads. Choose another one.")
    if WEIGHTS in there:
        weights = [WEIGHTS]
    elif INDEX in there:
        weights = [INDEX, *sorted(filter(_SHARD.fullmatch, there))]
    elif PICKLE in there and allow_pickle:
        weights = [PICKLE]
    elif PICKLE in there:
        raise ModelError(
            f"{repo} at {repo.revision!r} has its weights only as a pickle ({PICKLE}), and reading a pickle can run "
            f"code that came with it. If you trust its author, say `allow_pickle: true` in a sweep file; else "
            f"name a revision with {WEIGHTS}, which is often waiting as a pull request (refs/pr/N)."
        )
    else:
        raise ModelError(f"{repo} at {repo.revision!r} has no {WEIGHTS}. Choose a model or a revision that has one.")
    return [CONFIG, *weights, *(file for file in _TOKENIZER_FILES if file in there)]


def _shards(index: Path) -> set[str]:
    """The weight files that an index of sharded weights names; empty if it cannot be read."""
    try:
        return set(filter(is_shard, read_json(index)["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()


def _locate(draft: ModelDraft, *, offline: bool, progress: Progress) -> LocatedModel:
    fetched = fetch_model(
        str(draft.hub), draft.revision, allow_pickle=draft.allow_pickle, offline=offline, check=model_shape,
        progress=progress,
    )  # fmt: skip
    return LocatedModel(fetched.folder, fetched.at.name.rpartition("/")[2], fetched.at.source)


def _means(word: str) -> Keys | None:
    return _named(word, word) if is_repo_name(word.partition("@")[0]) else None


def _named(word: str, rest: str) -> Keys:
    repository, at, revision = rest.partition("@")
    if not repository or (at and not revision):
        raise ConfigError(
            f"{word!r} lacks its {'revision' if repository else 'name'}. Write hub:OWNER/NAME, then @REVISION for "
            "another one than the newest."
        )
    return {"hub": repository, "revision": revision or None}


def _inexact(draft: ModelDraft) -> tuple[str, str] | None:
    version = f"@{draft.revision}" if draft.revision else ""
    return (
        None if is_commit(draft.revision) else (f"model {draft.hub}{version}", "commit" if version else "newest commit")
    )


MODEL_SOURCES.register("hub")(FileSource(_locate, _means, _named, _inexact, rank=1))

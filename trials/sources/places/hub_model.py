"""Models of the hub, through its own library and in its cache ($HF_HOME), which other programs share (`hub`)."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from trials.errors import ModelError
from trials.models.model_files import INDEX, PICKLE, TOKENIZER_FILES, WEIGHTS, is_shard
from trials.outside.plain_files import digest_of, read_json
from trials.sources.cache import download_ban
from trials.sources.download import blob_digest
from trials.sources.hub_client import (
    COMMIT,
    MAIN,
    Repo,
    bar_class,
    cached_snapshots,
    explain_hub_errors,
    inexact_revision,
    is_repo_name,
    look_up,
)
from trials.sources.places.model_draft import MODEL_SOURCES, LocatedModel, ModelDraft, model_shape
from trials.sources.source import FileSource, Keys, name_and_version

CONFIG = "config.json"
_TOKENIZER_FILES = (
    *TOKENIZER_FILES, "tokenizer_config.json", "merges.txt", "special_tokens_map.json", "added_tokens.json",
)  # fmt: skip
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")


def fetch_model(repo: str, revision: str | None, *, allow_pickle: bool, offline: bool) -> LocatedModel:
    """A model from the hub's cache or from the hub.

    A branch is looked up each time; where downloads are forbidden it means the commit that the cache has it at, which
    another program may have fetched.

    Args:
        repo: `owner/name`, or the name alone of the oldest ones.
        revision: Commit, tag, branch or `refs/pr/N`; a commit that was fetched before needs no network. None for the
            newest commit.
        allow_pickle: Accept weights that exist only as a pickle, which can run code when it is read.

    Raises:
        ModelError: not found, gated, no connection, absent where downloads are forbidden, without weights that may be
            read, or of an architecture that is refused; in these cases no weights are downloaded.
    """
    where = Repo("models", repo, MAIN if revision is None else revision)
    with explain_hub_errors(where):
        barred = download_ban(offline=offline)
        if (barred or where.is_pinned) and (model := _cached_model(where, allow_pickle=allow_pickle)):
            return model
        if barred:
            raise ModelError(
                f"{where} ({where.revision}) is not on this machine and {barred} forbids the download; run "
                f"`permafrost data fetch --sweep FILE` or the same command without {barred} first.{where.near_hint}"
            )
        return _download(where, allow_pickle=allow_pickle)


def _cached_model(repo: Repo, *, allow_pickle: bool) -> LocatedModel | None:
    """The whole model that the cache holds of a repository; None if it holds none."""
    for snapshot, folder in cached_snapshots(repo):
        there = {path.name for path in folder.iterdir()} if (folder / CONFIG).is_file() else set()
        if there & {WEIGHTS, INDEX, PICKLE}:
            wanted = {*_model_files(repo, there, allow_pickle), *_shards(folder / INDEX)}
            if wanted <= there and all(_is_whole(folder / file) for file in wanted):
                return _locate_in(snapshot, folder)
    return None


def _locate_in(at: Repo, folder: Path) -> LocatedModel:
    return LocatedModel(folder, at.name.rpartition("/")[2], at.source)


def _is_whole(path: Path) -> bool:
    """Whether a file has the bytes that its name in the hub's cache says: SHA-256 where it is large, else git's digest.

    Where links are not supported it has its own name, and nothing says what it should be.
    """
    stored = path.resolve()
    if stored.parent.name != "blobs":
        return stored.is_file()
    try:
        if _SHA256.fullmatch(stored.name):
            return digest_of(path).hex() == stored.name
        return not COMMIT.fullmatch(stored.name) or blob_digest(stored) == stored.name
    except OSError:
        return False


def _download(repo: Repo, *, allow_pickle: bool) -> LocatedModel:
    from huggingface_hub import snapshot_download

    pin, info = look_up(repo)
    files = _model_files(repo, {sibling.rfilename for sibling in info.siblings or ()}, allow_pickle)
    if model := _cached_model(pin, allow_pickle=allow_pickle):
        return model._replace(source=pin.source)
    for path in (cached / file for _, cached in cached_snapshots(pin) for file in files):
        if not _is_whole(path):  # what is there, with whichever bytes, is not downloaded
            path.resolve().unlink(missing_ok=True)
    small = [file for file in files if file in (CONFIG, *_TOKENIZER_FILES)]
    folder = Path(snapshot_download(pin.name, revision=pin.revision, allow_patterns=small, tqdm_class=bar_class()))
    model_shape(folder)  # refuses before the weights are downloaded
    snapshot_download(pin.name, revision=pin.revision, allow_patterns=files, tqdm_class=bar_class(repo.name))
    missing = sorted(file for file in {*files, *_shards(folder / INDEX)} if not _is_whole(folder / file))
    if missing:  # without a connection the library returns an incomplete snapshot
        raise ModelError(f"{repo}: {', '.join(missing)} were not downloaded. Run the same command to resume.")
    return _locate_in(pin, folder)


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


def _locate(draft: ModelDraft, *, offline: bool) -> LocatedModel:
    return fetch_model(str(draft.hub), draft.revision, allow_pickle=draft.allow_pickle, offline=offline)


def _means(word: str) -> Keys | None:
    return _keys(word, word) if is_repo_name(word.partition("@")[0]) else None


def _keys(word: str, rest: str) -> Keys:
    return dict(zip(("hub", "revision"), name_and_version(word, rest, "hub:OWNER/NAME, then @REVISION"), strict=True))


def _inexact(draft: ModelDraft) -> tuple[str, str] | None:
    return inexact_revision(f"model {draft.hub}", draft.revision)


MODEL_SOURCES.register("hub")(FileSource(_locate, _means, _keys, _inexact, rank=1, is_remote=True))

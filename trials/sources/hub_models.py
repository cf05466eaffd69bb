"""Models of the hub, through its own library and in its cache ($HF_HOME), which other programs share."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from trials.errors import ModelError
from trials.escaping.plain_files import read_json
from trials.models.model_files import INDEX, PICKLE, WEIGHTS, is_shard
from trials.sources.cache import Progress, no_progress
from trials.sources.hub_client import TIMEOUT_S, Repo, bar_class, calling

CONFIG = "config.json"
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spm.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "special_tokens_map.json",
    "added_tokens.json",
)
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")


def fetch_model(
    repo: str, revision: str, *, allow_pickle: bool, offline: bool, progress: Progress = no_progress
) -> Path:
    """The folder of a model: configuration, weights and tokenizer, from the hub's cache or from the hub.

    Args:
        repo: `owner/name`.
        revision: Commit, tag, branch or `refs/pr/N`; a commit that was fetched before needs no network.
        allow_pickle: Accept weights that exist only as a pickle, which can run code when it is read.
        progress: Called with the bytes of all files together, under the repository's name.

    Raises:
        ModelError: not found, gated, no connection, absent and `offline`, or without weights that may be read.
    """
    where = Repo("models", repo, revision)
    with calling(where):
        here = offline or (where.is_pinned and where.remembered())
        if here and (folder := _local_model(where, allow_pickle=allow_pickle)):
            return folder
        if offline:
            raise ModelError(
                f"{where} ({revision}) is not on this machine and --offline forbids the download; "
                "run `permafrost data fetch --sweep FILE` or the same command without --offline first."
            )
        return _snapshot(where, allow_pickle=allow_pickle, progress=progress)


def _local_model(repo: Repo, *, allow_pickle: bool) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo.name, CONFIG, revision=repo.remembered() or repo.revision)
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    there = {path.name for path in folder.iterdir()}
    weights = there & {WEIGHTS, INDEX, PICKLE}
    return (
        folder if weights and set(_model_files(repo, there, allow_pickle)) | _shards(folder / INDEX) <= there else None
    )


def _snapshot(repo: Repo, *, allow_pickle: bool, progress: Progress) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    info = HfApi().model_info(repo.name, revision=repo.revision, timeout=TIMEOUT_S)
    files = _model_files(repo, {sibling.rfilename for sibling in info.siblings or ()}, allow_pickle)
    bar = bar_class(repo.name, progress)
    folder = Path(snapshot_download(repo.name, revision=repo.revision, allow_patterns=files, tqdm_class=bar))
    missing = sorted(file for file in {*files, *_shards(folder / INDEX)} if not (folder / file).is_file())
    if missing:
        # Without a connection the library returns an incomplete snapshot.
        raise ModelError(f"{repo}: {', '.join(missing)} were not downloaded. Run the same command to resume.")
    repo.remember(folder.name)
    return folder


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
            "code that came with it. If you trust its author, say `allow_pickle: true`; else name a revision with "
            f"{WEIGHTS}, which is often waiting as a pull request (refs/pr/N)."
        )
    else:
        raise ModelError(f"{repo} at {repo.revision!r} has no {WEIGHTS}. Choose a model or a revision that has one.")
    return [CONFIG, *weights, *(file for file in TOKENIZER_FILES if file in there)]


def _shards(index: Path) -> set[str]:
    """The weight files that an index of sharded weights names; empty if it cannot be read."""
    try:
        return set(filter(is_shard, read_json(index)["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()

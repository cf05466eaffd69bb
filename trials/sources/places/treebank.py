"""Universal Dependencies treebanks (https://universaldependencies.org), each from its own repository (`ud`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from trials.errors import ConfigError, DataError, unknown_name
from trials.outside.plain_files import path_inside, read_text
from trials.sources.cache import (
    FetchedCorpus,
    cache_root,
    download_ban,
    lock_folder,
    read_manifest,
    whole_corpus,
    write_manifest,
)
from trials.sources.download import LARGEST_FILE, Remote, download, get_json, safe_address
from trials.sources.places.corpus_draft import CORPUS_FORM, CORPUS_SOURCES, DataDraft, Located, locate_splits
from trials.sources.source import FileSource, Keys, name_and_version
from trials.starter import BUNDLED_TREEBANKS

API = "https://api.github.com"
ORGANISATION = "UniversalDependencies"
_NAME = re.compile(r"UD_[A-Za-z0-9_]+-[A-Za-z0-9_]+")
_RELEASE = re.compile(r"\d+\.\d+")
# Large treebanks have their split in several files: de_hdt-ud-train-a-1.conllu.
_WANTED = re.compile(r"[\w.-]+-ud-(train|dev|test)[\w-]*\.conllu|(LICENSE|README)[\w.-]*")
_LICENCE_WIDTH = 80  # characters: one line of a terminal
T = TypeVar("T")


def fetch_treebank(name: str, release: str | None, *, offline: bool) -> FetchedCorpus:
    """A treebank's splits, licence and README, from the cache or else from its repository.

    $PERMAFROST_UD_URL names another server with the same interface. Without a release it is the newest of the
    repository, where downloads are forbidden the newest in the cache.

    Raises:
        DataError: an invalid or unknown name or release; absent and `offline`; a download that failed, of which
            the next one keeps the files that are whole.
    """
    _check(name, release)
    barred = download_ban(offline=offline)
    if release is None:
        cached = (folder.name for folder in (cache_root() / "ud" / name).glob("*") if read_manifest(folder))
        release = _newest(cached if barred else _releases(name))
        if release is None and not barred:
            raise DataError(f"{name}: its repository has no release yet. Choose another treebank.")
    folder = cache_root() / "ud" / name / (release or "")
    if release is not None and (corpus := whole_corpus(folder)):
        return corpus
    if barred or release is None:
        version = "" if release is None else f"@{release}"
        raise DataError(
            f"{name}{version.replace('@', ' ')} is not on this machine and {barred} forbids the download; "
            f"run `permafrost data fetch ud:{name}{version}` first."
        )
    with lock_folder(folder):
        return whole_corpus(folder) or _fetch(name, release, folder)


def is_treebank_name(name: str) -> bool:
    """Whether a treebank can have this name."""
    return _NAME.fullmatch(name) is not None


def _check(name: str, release: str | None) -> None:
    if not is_treebank_name(name):
        raise DataError(f"{name!r} is not a treebank's name, which is UD_LANGUAGE-NAME, e.g. UD_English-EWT.")
    if release is not None and not _RELEASE.fullmatch(release):
        raise DataError(f"{release!r} is not a release of Universal Dependencies, which is e.g. 2.16.")


def _releases(name: str) -> list[str]:
    """The releases that a treebank's repository has, by its tags. Raises DataError."""

    def read(tags: Any) -> list[str]:
        return [str(tag["name"]).removeprefix("r") for tag in tags]

    return _ask(f"{name}/tags?per_page=100", name, "Look up the name at https://universaldependencies.org.", read)


def _ask(path: str, what: str, way_out: str, read: Callable[[Any], T]) -> T:
    """The result of `read` for a listing by the server of the repositories. Raises DataError."""
    url = f"{_api()}/repos/{ORGANISATION}/{path}"
    try:
        return read(get_json(url))
    except FileNotFoundError as error:
        raise DataError(f"no treebank {what} at {safe_address(_api())}. {way_out}") from error
    except (LookupError, TypeError, AttributeError) as error:
        listed = "tags" if "/tags" in path else "files"
        raise DataError(f"{safe_address(url)}: not a listing of {listed}. Check PERMAFROST_UD_URL.") from error


def _newest(releases: Iterable[str]) -> str | None:
    """2.16 is newer than 2.9."""
    numbered = [release for release in releases if _RELEASE.fullmatch(release)]
    return max(numbered, key=lambda release: tuple(map(int, release.split("."))), default=None)


def _api() -> str:
    return os.environ.get("PERMAFROST_UD_URL", API).rstrip("/")


def _fetch(name: str, release: str, folder: Path) -> FetchedCorpus:
    remotes = _listing(name, release)
    if not any(file.endswith(".conllu") for file in remotes):
        raise DataError(f"{name} {release}: its repository has no file like *-ud-train.conllu. Choose another one.")
    for file, remote in remotes.items():
        download(remote, path_inside(folder, file))
    source = f"ud:{name}@{release}"
    return write_manifest(folder, name=name, kind="ud", source=source, licence=_licence(folder, remotes), files=remotes)


def _listing(name: str, release: str) -> dict[str, Remote]:
    """The repository's splits, licence and README, sorted by name."""

    def read(entries: Any) -> dict[str, Remote]:
        files = [entry for entry in entries if entry["type"] == "file" and _WANTED.fullmatch(entry["name"])]
        return dict(sorted(map(_remote, files)))

    way_out = (
        "Look up the name at https://universaldependencies.org, and its releases at "
        f"https://github.com/{ORGANISATION}/{name}/tags."
    )
    return _ask(f"{name}/contents?ref={quote(f'r{release}')}", f"{name} with a release {release}", way_out, read)


def _remote(entry: dict[str, Any]) -> tuple[str, Remote]:
    url, size, digest = entry["download_url"], entry["size"], entry["sha"]
    if not (isinstance(url, str) and type(size) is int and isinstance(digest, str) and 0 <= size <= LARGEST_FILE):
        raise TypeError(f"{entry['name']}: no file of {size!r} bytes")
    return entry["name"], Remote(url, size, digest)


def _licence(folder: Path, files: Iterable[str]) -> str | None:
    """The licence file's first line, else the licence in the README's metadata."""
    licence = next((file for file in files if file.startswith("LICENSE")), None)
    if licence and (lines := _lines(folder / licence)):
        return _short(lines[0])
    readmes = [file for file in files if file.startswith("README")]
    metadata = (line.partition(":") for file in readmes for line in _lines(folder / file))
    return next((_short(value) for key, _, value in metadata if key == "License" and value.strip()), None)


def _lines(path: Path) -> list[str]:
    lines = read_text(path, errors="replace").removeprefix("\ufeff").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LICENCE_WIDTH else text[: _LICENCE_WIDTH - 3].rstrip() + "..."


def _locate(draft: DataDraft, *, offline: bool) -> Located:
    treebank = fetch_treebank(str(draft.ud), draft.release, offline=offline)
    return locate_splits(treebank, draft, "use another one")


def _means(word: str) -> Keys | None:
    if word.startswith("UD_") and not is_treebank_name(word.partition("@")[0]):
        raise ConfigError(unknown_name(word, BUNDLED_TREEBANKS))
    return _keys(word, word) if word.startswith("UD_") else None


def _keys(word: str, rest: str) -> Keys:
    return dict(zip(("ud", "release"), name_and_version(word, rest, CORPUS_FORM), strict=True))


def _inexact(draft: DataDraft) -> tuple[str, str] | None:
    return (f"treebank {draft.ud}", "newest release") if draft.release is None else None


CORPUS_SOURCES.register("ud")(FileSource(_locate, _means, _keys, _inexact, rank=2, is_remote=True))

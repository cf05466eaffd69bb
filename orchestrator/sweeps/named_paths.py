"""The files and folders that a sweep names: a relative path is looked up beside the sweep's file, then where one is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.config.yaml_document import Document, KeyPath
from trials.corpora.corpus import SPLITS
from trials.starter import BUNDLED_TREEBANKS, STARTER

# The settings whose values are paths, and the keys around settings that are none themselves.
_PATHS = {("model",), ("model", "folder"), *(("data", *key) for key in ((), ("folder",), ("file",)))}
_PATHS |= {("data", split) for split in SPLITS}
_NO_SETTINGS = {"trial", "space", "cases", "choice"}


def each_path(value: Any, change: Callable[[str, KeyPath], str], keys: tuple[str, ...] = (), at: KeyPath = ()) -> Any:
    """A sweep's content, or a part of it, in which `change(word, key path)` has replaced every word that may be a path.

    Args:
        keys: The words of the setting that the part is of, e.g. `("data", "folder")`.
    """
    if isinstance(value, dict):
        inner = {key: [word for word in str(key).split(".") if word not in _NO_SETTINGS] for key in value}
        return {key: each_path(value[key], change, (*keys, *inner[key]), (*at, key)) for key in value}
    if isinstance(value, list):
        return [each_path(item, change, keys, (*at, n)) for n, item in enumerate(value)]
    may_be_path = isinstance(value, str) and keys in _PATHS and value not in (STARTER, *BUNDLED_TREEBANKS)
    return change(value, at) if may_be_path else value


def resolve_beside_file(document: Document) -> None:
    """Make relative paths that exist in the document's folder mean these files. Options mean the working folder."""
    folder = document.path.parent

    def path_beside(word: str, at: KeyPath) -> str:
        is_option = any(at[:length] in document.settings for length in range(1, len(at) + 1))
        if is_option or existing_path(word, folder) is None:
            return word
        path = Path(os.path.abspath(folder / Path(word).expanduser()))  # noqa: PTH100
        return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)

    if folder not in (Path(), Path.cwd()):
        for key in ("trial", "space"):
            if key in document.content:
                document.content[key] = each_path(document.content[key], path_beside, at=(key,))


def existing_path(word: str, folder: Path) -> Path | None:
    """The path that a word names, absolute or from a folder; None if nothing exists there."""
    try:
        path = Path(os.path.abspath(folder / Path(word).expanduser()))  # noqa: PTH100  # a link keeps its own name
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, an unknown user's home, a zero byte
        return None


def relative_word(word: str, folder: Path) -> str:
    """A path of the working folder as a file in `folder` names it."""
    path = Path(word).expanduser()
    return word if path.is_absolute() or folder == Path() else os.path.relpath(path, folder)

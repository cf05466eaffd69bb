"""What is asked of a source of corpora or models, which is found in `places`, and what a word may be that names one."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from trials.errors import ConfigError, DataError, ModelError, quote
from trials.plugins.registry import Registry
from trials.spec import Frozen

D = TypeVar("D")  # what a YAML file declares
L = TypeVar("L")  # where that is
Keys = Mapping[str, str | None]
_MOST_NAMES = 1_000  # names in a folder with which a misspelt name is compared


@dataclass(frozen=True)
class FileSource(Generic[D, L]):
    """Where corpora or models come from.

    Attributes:
        locate: From what is declared to where it is, downloaded if necessary (`offline`); raises a
            DataError or ModelError.
        means: From a bare word to the keys that it stands for, or to None if it is no name of this source.
        named: The same for a word with the key of the source in front, `ud:NAME`, and what is behind the colon.
        inexact: In words, what somebody asked for whose version may be another one tomorrow, and which version that is
            now: `treebank NAME`, `newest release`. None where it is exact.
        rank: In which order sources are asked whether a bare word means one of theirs.
        is_remote: Whether what is not on this machine may still be fetched.
    """

    locate: Callable[..., L]
    means: Callable[[str], Keys | None] = lambda word: None
    named: Callable[[str, str], Keys | None] = lambda word, rest: None
    inexact: Callable[[D], tuple[str, str] | None] = lambda draft: None
    rank: int = 0
    is_remote: bool = False


class Sourced(Frozen):
    """What a YAML file declares and a source looks up.

    The keys of all sources are those of one class, so that files have one vocabulary; each source reads its own.
    """

    sources: ClassVar[Registry[Any]]
    pages: ClassVar[str] = ""  # what addresses of pages on the hub begin with, behind its name

    @property
    def way(self) -> str:
        """The key that says where it comes from, and with it the source."""
        raise NotImplementedError

    @property
    def is_pinned(self) -> bool:
        """Whether it means the same files tomorrow, as far as its name can say."""
        return self.sources[self.way].inexact(self) is None

    @property
    def is_remote(self) -> bool:
        """Whether what is not on this machine may still be fetched."""
        return bool(self.sources[self.way].is_remote)

    def version(self, exact: str) -> str:
        """A phrase that says which exact version a name was resolved to: the `source` of a spec."""
        name, version = self.sources[self.way].inexact(self)
        return f"{name} is {exact}, its {version}"

    def pin(self, exact: str | None) -> Self:
        """The same at the version that the `source` of a spec says."""
        return self if exact is None else self.model_copy(update=dict(self.keys_of(exact)))

    @classmethod
    def keys_of(cls, word: str) -> Keys:
        """The keys that a word stands for; a word that is no name of any source is a folder. Raises ConfigError."""
        word = name_on_page(word, cls.pages)
        kind, colon, rest = word.partition(":")
        source: FileSource[Self, Any] | None = cls.sources.get(kind) if colon else None
        if source is not None and (keys := source.named(word, rest)) is not None:
            return keys
        ranked = sorted(cls.sources.values(), key=lambda source: source.rank)
        return next(filter(None, (source.means(word) for source in ranked)), {"folder": word})


def name_on_page(address: str, kind: str = "") -> str:
    """The repository whose page of the hub has this address, with `@REVISION` where it shows one; else the address.

    Args:
        kind: `datasets/`, or nothing for models.
    """
    page = rf"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/{kind}(?!datasets/|spaces/)([^/?#]+(?:/[^/?#]+)?)"
    found = re.match(page + r"(?:/(?:tree|blob|resolve)/([^/?#]+))?", address)
    return address if found is None else found[1] + (f"@{found[2]}" if found[2] else "")


def name_and_version(word: str, rest: str, form: str) -> tuple[str, str | None]:
    """The parts of NAME or NAME@VERSION; `rest` is the word without the source in front, `form` how it is written.
    Raises ConfigError: one part is empty.
    """
    name, separator, version = rest.partition("@")
    if not name or (separator and not version):
        lacks = "version" if name else "name"
        raise ConfigError(f"{word!r} lacks its {lacks}. Write {form} for another one than the newest.")
    return name, version or None


def is_path(name: str) -> bool:
    """Whether a name means a file or folder: it exists, or it is written as only paths are."""
    try:
        there = Path(name).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long, a zero byte, nobody's home
        return True
    return there or name.startswith((".", "/", "~")) or name.endswith(("/", os.sep))


def absolute(
    path: str, error: type[DataError | ModelError] = DataError, give: str = "the path of a file or folder"
) -> Path:
    """A path from outside, absolute. Raises the error: it is none; `give` says what would be."""
    try:
        resolved = Path(path).expanduser().resolve()
        resolved.exists()
    except (OSError, RuntimeError, ValueError) as fault:  # too long, a loop of links, nobody's home, a zero byte
        reason = getattr(fault, "strerror", None) or fault
        raise error(f"{path!r:.200} is not a path ({reason}). Give {give}.") from fault
    return resolved


def near_hint(name: str, known_names: Iterable[str]) -> str:
    """A sentence on the file, folder or known name that a misspelt name is near to; empty if there is none."""
    folder = Path(name).parent
    try:
        here = [str(folder / entry.name) for entry in islice(folder.iterdir(), _MOST_NAMES)]
    except (OSError, ValueError):
        here = []
    near = difflib.get_close_matches(str(Path(name)), [*known_names, *here], n=1)
    return f" Did you mean {quote(near[0])}?" if near else ""

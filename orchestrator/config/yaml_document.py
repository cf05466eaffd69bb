"""A YAML file that remembers on which line each of its keys stands, so that an error can point there.

What it may cost to read one is bounded: aliases and merge keys (`<<`) can say in ten lines what takes a year to write
out, so nodes are counted, as often as they are used, before any value is made of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from orchestrator.config.validation_messages import shortened
from trials.errors import ConfigError

KeyPath = tuple[str | int, ...]

MAX_BYTES = 250_000  # of a file: a second to read, or five if its brackets are of the worst kind
MAX_NODES = 100_000  # keys and values, those of an alias counted at each of its uses
MAX_DEPTH = 50
MAX_KEY = 200  # characters
_INT64 = 1 << 63
_PLAIN = "\t\n\r"  # the control characters that may stand in a value


@dataclass
class Document:
    """The content of a YAML file, with settings from the command line put over it.

    Attributes:
        path: The file.
        content: Its mapping.
        lines: The line of every key and list entry.
        settings: Key path of every setting that was put over the file, and how it was written.
    """

    path: Path
    content: dict[str, Any]
    lines: dict[KeyPath, int]
    settings: dict[KeyPath, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file. Raises ConfigError: unreadable, not YAML, too large, not a mapping, or a key given twice."""
        content, lines = parsed(_text(path), str(path))
        if not isinstance(content, dict):
            raise ConfigError(
                f"{path}: must be a mapping of keys, like the files in configs/sweeps/ and configs/clusters/."
            )
        return cls(path, content, lines)

    def override(self, setting: str) -> None:
        """Put `KEY=VALUE` over the content; KEY is dotted, VALUE is YAML. Raises ConfigError."""
        key, equals, text = setting.partition("=")
        shown = f"--set {shortened(setting if setting.isprintable() else repr(setting))}"
        if not equals or not key or not key.isprintable():
            raise ConfigError(f"{shown}: must be KEY=VALUE, e.g. --set seeds=[0,1].")
        try:
            value, _ = parsed(text, shown)
        except ConfigError as error:
            raise ConfigError(f"{shown}: the value is not YAML.") from error
        path = tuple(key.split("."))
        if path[0] == "space" and len(path) > 2:  # keys of the space are dotted themselves
            path = ("space", ".".join(path[1:]))
        try:
            set_path(self.content, path, value)
        except TypeError as error:
            raise ConfigError(f"{shown}: {error}") from error
        self.settings[path] = shown

    def place(self, path: KeyPath) -> str:
        """`file:line: key: ` of a key, or of the nearest key above it that is written down."""
        key = _dotted(path)
        written = [path[:length] for length in range(len(path), 0, -1)]
        for above in written:  # a setting replaced all that the file has below its key
            if (setting := self.settings.get(above)) is not None:
                return f"{setting}: {key}: "
        for above in written:
            if (line := self.lines.get(above)) is not None:
                return f"{self.path}:{line}: {key}: "
        return f"{self.path}: {key}: " if key else f"{self.path}: "


def set_path(content: dict[str, Any], path: Sequence[str], value: object) -> None:
    """Set a key deep inside nested mappings, making those that are absent. Raises TypeError through a non-mapping."""
    for key in path[:-1]:
        inner = content.setdefault(key, {})
        if not isinstance(inner, dict):
            raise TypeError(f"{key} is {shortened(repr(inner))}, which has no keys.")
        content = inner
    content[path[-1]] = value


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text.") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: has more than {MAX_BYTES:,} bytes, which no sweep needs. Is it the right file?")
    return text


def parsed(text: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    """The value that a YAML text from anywhere holds, plain and of bounded size, and the line of each of its keys.

    Args:
        text: Of at most `MAX_BYTES`, lest reading it take long.
        file: What an error names.

    Raises:
        ConfigError: not YAML, or more than this module's bounds.
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None, {}
        lines = _Lines(file)
        lines.walk(root, ())  # before anything is made of the nodes
        return loader.construct_document(root), lines.found
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(_where(file, error)) from error


class _Loader(yaml.SafeLoader):
    """Plain values only, as of the safe loader; a value that cannot be one is a YAMLError with its line.

    The safe loader itself raises whatever Python does for `!!int ''`, a date that no calendar has, or a sexagesimal
    number beyond all bounds.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """A node with all below it; told of too deep a one before the rest is read, which takes ever longer."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.get_mark()
            raise yaml.composer.ComposerError(None, None, f"nests deeper than {MAX_DEPTH} levels", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node."""
        try:
            value = super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, ArithmeticError, TypeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(None, None, f"no value of {kind}", node.start_mark) from error
        if rule := _broken_rule(value):
            raise yaml.constructor.ConstructorError(None, None, rule, node.start_mark)
        return value


def _broken_rule(value: object) -> str | None:
    """Why a scalar may not stand in a sweep."""
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return "a number of more than 64 bits"
    if isinstance(value, str) and not value.isprintable():
        odd = [c for c in value if unicodedata.category(c) in ("Cc", "Cs") and c not in _PLAIN]
        if odd:
            return f"a text with the character {odd[0]!r}"
    return None


class _Lines:
    """Walks the nodes of a document and notes where each key and entry stands.

    Attributes:
        found: The line of every key path.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: dict[KeyPath, int] = {}
        self._n_nodes = 0
        self._inside: set[int] = set()

    def walk(self, node: yaml.Node, path: KeyPath) -> None:
        """Note everything below a node. Raises ConfigError: a key twice, or too much of anything."""
        self._n_nodes += 1
        if self._n_nodes > MAX_NODES:
            raise ConfigError(f"{self.file}: holds more than {MAX_NODES:,} values, aliases counted at each use.")
        if isinstance(node, yaml.ScalarNode):
            return
        if id(node) in self._inside:
            raise ConfigError(f"{self.file}: nests without end. Take out the alias that holds itself.")
        if len(path) > MAX_DEPTH:
            raise ConfigError(f"{self.file}:{_line(node)}: nests deeper than {MAX_DEPTH} levels.")
        self._inside.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.found[(*path, index)] = _line(item)
                self.walk(item, (*path, index))
        self._inside.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key, line = key_node.value, _line(key_node)
            if not isinstance(key, str):
                raise ConfigError(f"{self.file}:{line}: a list or mapping is no key. Write a word.")
            if not key.isprintable() or len(key) > MAX_KEY:
                raise ConfigError(f"{self.file}:{line}: {shortened(repr(key))} is no key. Take it out.")
            if key in seen:
                raise ConfigError(f"{self.file}:{line}: {_dotted((*path, key))}: is given twice. Keep one.")
            seen.add(key)
            self.found[(*path, key)] = line
            self.walk(value_node, (*path, key))


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _where(file: str, error: yaml.YAMLError | ValueError) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"{file}{line}: not YAML: {shortened(problem)}. Check the indentation and brackets."


def _dotted(path: KeyPath) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")

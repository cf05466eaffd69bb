"""A YAML file that remembers on which line each of its keys stands, so that an error can point there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from trials.errors import ConfigError

KeyPath = tuple[str | int, ...]


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
        """Read a file. Raises ConfigError: unreadable, not YAML, not a mapping, or a key given twice."""
        try:
            text = path.read_text(encoding="utf-8")
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            content = yaml.safe_load(text)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8 text.") from error
        except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that no calendar has
            raise ConfigError(_where(path, error)) from error
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: a sweep is a mapping of keys like `name:` and `space:`; see configs/sweeps/.")
        lines: dict[KeyPath, int] = {}
        try:
            _walk(root, (), lines, path)
        except RecursionError as error:
            raise ConfigError(f"{path}: nests without end. Take out the alias that holds itself.") from error
        return cls(path, content, lines)

    def override(self, setting: str) -> None:
        """Put `KEY=VALUE` over the content; KEY is dotted, VALUE is YAML. Raises ConfigError."""
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {setting}: must be KEY=VALUE, e.g. --set seeds=[0,1].")
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError) as error:
            raise ConfigError(f"--set {setting}: the value is not YAML.") from error
        path = tuple(key.split("."))
        if path[0] == "space" and len(path) > 2:  # keys of the space are dotted themselves
            path = ("space", ".".join(path[1:]))
        try:
            set_path(self.content, path, value)
        except TypeError as error:
            raise ConfigError(f"--set {setting}: {error}") from error
        self.settings[path] = f"--set {setting}"

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
            raise TypeError(f"{key} is {inner!r}, which has no keys.")
        content = inner
    content[path[-1]] = value


def _walk(node: yaml.Node | None, path: KeyPath, lines: dict[KeyPath, int], file: Path) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in seen:
                raise ConfigError(f"{file}:{line}: {_dotted((*path, key))}: is given twice. Keep one.")
            seen.add(key)
            lines[(*path, key)] = line
            _walk(value_node, (*path, key), lines, file)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            _walk(item, (*path, index), lines, file)


def _where(path: Path, error: yaml.YAMLError | ValueError) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"{path}{line}: not YAML: {problem}. Check the indentation and brackets."


def _dotted(path: KeyPath) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")

"""A YAML file that knows the line of each of its keys, so that errors can point there.

The cost of reading a file is bounded: with aliases and merge keys (`<<`) ten lines can expand to billions of values, so
nodes are counted at each use before any value is built. What pydantic finds wrong with the values becomes our messages.
"""

from __future__ import annotations

import errno
import re
import types
import typing
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trials.errors import ConfigError, excerpt, quote, unknown_name
from trials.outside.plain_files import read_text
from trials.outside.validation_rules import join_rules, rule_of

KeyPath = tuple[str | int, ...]

MAX_VALUE = 200  # characters of a value in a message
MAX_MISTAKES = 50  # in a message


class SettingFault(NamedTuple):
    """One thing that is wrong with a document.

    Attributes:
        path: Of its key; keys and list indices only.
        text: One sentence with the value, the rule and the fix.
    """

    path: KeyPath
    text: str


def faults(error: ValidationError, model: type[BaseModel]) -> list[SettingFault]:
    """The faults that a model finds in a document, in its order; a value that fits none of several types is one."""
    groups: dict[KeyPath, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False):
        groups.setdefault(_keys_of(details["loc"], model), []).append(details)
    inner = {path[:n] for path in groups for n in range(len(path))}  # where a type fits but for something inside it
    return [
        SettingFault(path, _wording_of(path, group, model))
        for path, group in groups.items()
        if not (
            path in inner and all(details["type"].endswith(("_type", "_parsing", "literal_error")) for details in group)
        )
    ]


def _wording_of(path: KeyPath, errors: Sequence[ErrorDetails], model: type[BaseModel]) -> str:
    error = errors[0]
    if error["type"] == "extra_forbidden":
        inside = _model_at(model, path[:-1])
        return unknown_name(str(path[-1]), inside.model_fields if inside else ())
    if error["type"] == "missing":
        return f"{rule_of(error)}."
    value, shown = error["input"], quote(error["input"])
    if error["type"] in ("model_type", "model_attributes_type") and (inside := _model_at(model, path)):
        return f"{shown}: must be a mapping of some of: {', '.join(inside.model_fields)}."
    message = rule_of(error) if len(errors) == 1 else join_rules(map(rule_of, errors))
    is_shown = isinstance(value, str | int | float) and repr(value) not in message and error["type"] != "json_invalid"
    return shorten(f"{shown}: {message}" if is_shown else message, 10 * MAX_VALUE)


def _keys_of(loc: KeyPath, model: type[BaseModel]) -> KeyPath:
    """A location of pydantic without its names for the members of a union and for the keys of a mapping."""
    annotation: Any = model
    path: list[int | str] = []
    for part in loc:
        annotation, members = _plain(annotation)
        if len(members) > 1:  # the name of a member
            annotation = next((m for m in members if typing.get_origin(m) is not None), None)
        elif part != "[key]":
            path.append(part)
            annotation = _inside(annotation, part)
    return tuple(path)


def _plain(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without its annotations and None, and the members of a union."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, ()
    members = tuple(member for member in typing.get_args(annotation) if member is not type(None))
    return _plain(members[0]) if len(members) == 1 else (annotation, members)


def _inside(annotation: Any, part: int | str) -> Any:
    """The type of a key's value."""
    annotation, _ = _plain(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(part))
        return None if field is None else field.annotation
    arguments = [arg for arg in typing.get_args(annotation) if arg is not Ellipsis]
    if typing.get_origin(annotation) is tuple and isinstance(part, int) and part < len(arguments):
        return arguments[part]
    return arguments[-1] if arguments else None


def shorten(text: str, longest: int = MAX_VALUE) -> str:
    """The text, or its beginning if it is too long for a message."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def first_problems(problems: Iterable[str]) -> list[str]:
    """The first mistakes, in the order of their file, and the number of further ones."""
    mistakes = sorted(problems, key=lambda problem: int(at[1]) if (at := _AT_LINE.match(problem)) else 0)
    n_more = len(mistakes) - MAX_MISTAKES
    return [*mistakes[:MAX_MISTAKES], *([f"... and {n_more:,} more mistakes."] if n_more > 0 else [])]


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The class that validated the mapping at a path."""
    for key in path:
        if isinstance(key, str) and key in model.model_fields:
            inner = _model_in(model.model_fields[key].annotation)
            if inner is None:
                return None
            model = inner
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The settings class inside a type such as a list or an optional value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType, list, dict, tuple):
        return next((model for arg in typing.get_args(annotation) if (model := _model_in(arg))), None)
    return None


MAX_BYTES = 250_000  # largest file: it takes one second to read, five in the worst case
MAX_NODES = 100_000  # keys and values, those of an alias at each use
MAX_DEPTH = 50  # the parser recurses
MAX_KEY = 200  # characters
MOST_FOREIGN = 4  # keys for each known one
_INT64 = 1 << 63  # whole numbers end up in columns of 64 bits
_QUOTED = re.compile(r"'([^']*)'")
_AT_LINE = re.compile(r".+?:(\d+): ")
_PLAIN = "\t\n\r"  # control characters that are allowed in a value


@dataclass
class Document:
    """The content of a YAML file, with overrides from the command line.

    Attributes:
        lines: The line of every key and list entry.
        settings: The key path of every override, and the option as it was typed.
    """

    path: Path
    content: dict[str, Any]
    lines: dict[KeyPath, int]
    settings: dict[KeyPath, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, keys: Sequence[str] = ()) -> Document:
        """Read a file.

        Args:
            keys: Keys that such a file may have, if it is to be refused where hardly any of its keys is one: it may be
                any file of key: value, of which no message may quote much.

        Raises:
            ConfigError: unreadable, not YAML, too large, not a mapping, foreign, or a key given twice.
        """
        document = cls.of_text(path, _text(path))
        if keys and MOST_FOREIGN * len(document.content.keys() & keys) < len(document.content):
            raise ConfigError(
                f"{path}: has other keys than such a file, whose keys are {', '.join(keys[:5])}, ... "
                "Check that it is the right file."
            )
        return document

    @classmethod
    def of_text(cls, path: Path, text: str) -> Document:
        """Read the text of a file that need not exist yet. Raises ConfigError as `read` does."""
        content, lines = parse_yaml(text, str(path))
        if not isinstance(content, dict):
            raise ConfigError(
                f"{path}: must be a mapping of keys, like the files in configs/sweeps/ and configs/clusters/."
            )
        return cls(path, content, lines)

    def override(self, setting: str) -> None:
        """Apply an override `KEY=VALUE`; KEY is dotted, VALUE is YAML. Raises ConfigError."""
        key, equals, text = setting.partition("=")
        shown = f"--set {shorten(setting if setting.isprintable() else repr(setting))}"
        if not equals or not key or not key.isprintable():
            raise ConfigError(f"{shown}: must be KEY=VALUE, e.g. --set seeds=[0,1].")
        try:
            value, _ = parse_yaml(text, shown)
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
        """`file:line: key: ` of a key, or of its nearest ancestor in the file."""
        key = _dotted_key(path)
        written = [path[:length] for length in range(len(path), 0, -1)]
        for above in written:  # an override replaces everything below its key
            if (setting := self.settings.get(above)) is not None:
                return f"{setting}: {key}: "
        for above in written:
            if (line := self.lines.get(above)) is not None:
                return f"{self.path}:{line}: {key}: "
        return f"{self.path}: {key}: " if key else f"{self.path}: "


def set_path(content: dict[str, Any], path: Sequence[str], value: object) -> None:
    """Set a key in nested mappings, creating absent ones. Raises TypeError: something on the path is not a mapping."""
    for key in path[:-1]:
        inner = content.setdefault(key, {})
        if not isinstance(inner, dict):
            raise TypeError(f"{key} is {shorten(repr(inner))}, which has no keys.")
        content = inner
    content[path[-1]] = value


def _text(path: Path) -> str:
    try:
        return read_text(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise ConfigError(
                f"{path}: has more than {MAX_BYTES:,} bytes, which no sweep needs. Check that it is the right file."
            ) from error
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).", exit_code=3) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text.") from error


def parse_yaml(text: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    """Parse untrusted YAML into plain values of bounded size, and the line of each key.

    Raises:
        ConfigError: not YAML, or beyond the limits of this module.
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None, {}
        lines = _Lines(file)
        lines.walk(root, ())  # before any value is built
        return loader.construct_document(root), lines.found
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(_where(file, error)) from error


class _Loader(yaml.SafeLoader):
    """A safe loader that raises a YAMLError with a line for every invalid value.

    PyYAML's own raises arbitrary Python exceptions for `!!int ''`, an invalid date, or a huge sexagesimal number.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """A node with its descendants; too deep a node is an error before the rest is read, which would take long."""
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
    """Why a scalar is not allowed in a sweep; None if it is."""
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return "a number of more than 64 bits"
    if isinstance(value, str) and not value.isprintable():
        odd = [c for c in value if unicodedata.category(c) in ("Cc", "Cs") and c not in _PLAIN]
        if odd:
            return f"a text with the character {odd[0]!r}"
    return None


class _Lines:
    """Walks the nodes of a document and records the line of each key and entry.

    Attributes:
        found: The line of every key path.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: dict[KeyPath, int] = {}
        self._n_nodes = 0
        self._inside: set[int] = set()

    def walk(self, node: yaml.Node, path: KeyPath) -> None:
        """Record everything below a node. Raises ConfigError: a duplicate key, or a limit is exceeded."""
        self._n_nodes += 1
        if self._n_nodes > MAX_NODES:
            raise ConfigError(f"{self.file}: holds more than {MAX_NODES:,} values, aliases counted at each use.")
        if isinstance(node, yaml.ScalarNode):
            return
        if id(node) in self._inside:
            raise ConfigError(f"{self.file}: nests without end. Remove the alias that contains itself.")
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
                raise ConfigError(f"{self.file}:{line}: a list or mapping cannot be a key. Use a word.")
            if not key.isprintable() or len(key) > MAX_KEY:
                raise ConfigError(f"{self.file}:{line}: {quote(key)} is not a valid key. Remove it.")
            if key in seen:
                raise ConfigError(f"{self.file}:{line}: {_dotted_key((*path, key))}: is given twice. Keep one.")
            seen.add(key)
            self.found[(*path, key)] = line
            self.walk(value_node, (*path, key))


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _where(file: str, error: yaml.YAMLError | ValueError) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    problem = _QUOTED.sub(lambda match: quote(match[1]), problem)  # names of tags, anchors and aliases
    return f"{file}{line}: not YAML: {shorten(problem)}. Check the indentation and brackets."


def _dotted_key(path: KeyPath) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{excerpt(part)}" for part in path)
    return text.removeprefix(".")

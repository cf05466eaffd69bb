"""Translate pydantic's validation errors into our error messages."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trials.errors import unknown
from trials.escaping.plain_rules import rule_of, together
from trials.escaping.untrusted_text import quoted

KeyPath = tuple[str | int, ...]

MAX_VALUE = 200  # characters of a value in a message
MAX_MISTAKES = 50  # in a message
_REMOVED = {  # keys of earlier versions, by the end of their path
    "notify.email": "e-mail was removed. Use `webhook`.",
    "search.order": "was removed with `kind: placement`. Remove this key.",
}


class SettingFault(NamedTuple):
    """One thing that is wrong with a document.

    Attributes:
        path: Of its key; keys and list indices only.
        text: One sentence with the value, the rule and the fix.
        kind: Pydantic's type of the error.
        value: What stands there.
    """

    path: KeyPath
    text: str
    kind: str
    value: object = None


def faults(error: ValidationError, model: type[BaseModel]) -> list[SettingFault]:
    """What a model has against a document, in its order; a value that fits none of several types is one fault."""
    groups: dict[KeyPath, list[ErrorDetails]] = {}
    for each in error.errors(include_url=False):
        groups.setdefault(_keys_of(each["loc"], model), []).append(each)
    inner = {path[:n] for path in groups for n in range(len(path))}  # where a type fits but for something inside it
    return [
        SettingFault(path, _wording_of(path, each, model), each[0]["type"], each[0]["input"])
        for path, each in groups.items()
        if not (path in inner and all(one["type"].endswith(("_type", "_parsing", "literal_error")) for one in each))
    ]


def _wording_of(path: KeyPath, errors: Sequence[ErrorDetails], model: type[BaseModel]) -> str:
    error = errors[0]
    if error["type"] == "extra_forbidden":
        if (key := ".".join(map(str, path[-2:]))) in _REMOVED:
            return _REMOVED[key]
        inside = _model_at(model, path[:-1])
        return unknown(str(path[-1]), inside.model_fields if inside else ())
    if error["type"] == "missing":
        return f"{rule_of(error)}."
    value, shown = error["input"], quoted(error["input"])
    if error["type"] in ("model_type", "model_attributes_type") and (inside := _model_at(model, path)):
        return f"{shown}: must be a mapping of some of: {', '.join(inside.model_fields)}."
    message = rule_of(error) if len(errors) == 1 else together(map(rule_of, errors))
    is_shown = isinstance(value, str | int | float) and repr(value) not in message and error["type"] != "json_invalid"
    return shortened(f"{shown}: {message}" if is_shown else message, 10 * MAX_VALUE)


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


def shortened(text: str, longest: int = MAX_VALUE) -> str:
    """The text, or its beginning if it is too long for a message."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"


def most(problems: Iterable[str]) -> list[str]:
    """The first mistakes, and the number of further ones."""
    found = list(problems)
    return (
        found
        if len(found) <= MAX_MISTAKES
        else [*found[:MAX_MISTAKES], f"... and {len(found) - MAX_MISTAKES:,} more mistakes."]
    )


def _model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """The class that validated the mapping at a path."""
    for key in path:
        if isinstance(key, str) and key in model.model_fields:
            inner = model_in(model.model_fields[key].annotation)
            if inner is None:
                return None
            model = inner
    return model


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The class of settings inside a type, such as that of a list or of an optional value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType, list, dict, tuple):
        return next((found for arg in typing.get_args(annotation) if (found := model_in(arg))), None)
    return None

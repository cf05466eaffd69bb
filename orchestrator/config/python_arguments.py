"""Arguments from Python: their types told in words, and errors that name them rather than options of a command."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from trials.errors import ConfigError, PermafrostError, unknown

P = ParamSpec("P")
R = TypeVar("R")
_WORDS = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", Path: "a path",
    Mapping: "a mapping", Sequence: "a list", list: "a list", tuple: "a list", dict: "a mapping",
}  # fmt: skip
_OPTION = re.compile(r"`[^`]*`|--([a-z]+(?:-[a-z]+)*)")  # what stands in backticks is a command


def checked_argument(name: str, value: Any, hint: Any) -> Any:
    """An argument as its type has it: a path as a text, a single text as a list of it.

    Raises:
        ConfigError: It is of another type, or none of the words that the type lists.
    """
    kinds, listed = _kinds(hint), _listed(hint)
    if value is None or Any in kinds:
        return value
    if listed:
        if value not in listed:
            raise ConfigError(f"{name}: {unknown(str(value), listed)}")
        return value
    if isinstance(value, str) and str not in kinds and {Sequence, Iterable} & {*kinds}:
        return (value,)
    if isinstance(value, os.PathLike) and str in kinds and Path not in kinds:
        return os.fspath(value)
    is_bool = isinstance(value, bool)
    if isinstance(value, bool if is_bool else tuple(kinds)) and (not is_bool or bool in kinds):
        return value
    if float in kinds and isinstance(value, int) and not is_bool:
        return value
    wanted = " or ".join(dict.fromkeys(_WORDS.get(kind, kind.__name__) for kind in kinds if kind is not NoneType))
    raise ConfigError(f"{name}: {value!r:.80} is {_WORDS.get(type(value), type(value).__name__)}. Give {wanted}.")


def _kinds(hint: Any) -> list[Any]:
    """The classes that a type allows."""
    if get_origin(hint) in (Union, UnionType):
        return [kind for inner in get_args(hint) for kind in _kinds(inner)]
    return [get_origin(hint) or hint]


def _listed(hint: Any) -> list[str]:
    """The words that a type lists, beside None."""
    if get_origin(hint) in (Union, UnionType):
        return [word for inner in get_args(hint) for word in _listed(inner)]
    return list(get_args(hint)) if get_origin(hint) is Literal else []


def from_python(function: Callable[P, R], further: Collection[str] = ()) -> Callable[P, R]:
    """A function for people who call it from Python; `further` are names of arguments that it takes as keywords."""
    signature = inspect.signature(function, eval_str=True)
    names = {*signature.parameters, *further}

    @functools.wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> R:
        bound = signature.bind(*args, **named)
        try:
            for name, value in bound.arguments.items():
                if signature.parameters[name].kind is not inspect.Parameter.VAR_KEYWORD:
                    bound.arguments[name] = checked_argument(name, value, signature.parameters[name].annotation)
            return function(*bound.args, **bound.kwargs)
        except PermafrostError as error:
            error.args = tuple(in_python(str(text), names) for text in error.args)
            raise

    return called


def in_python(text: str, names: Collection[str]) -> str:
    """A message with Python's arguments in place of a command's options: `max_hours` for `--max-hours`."""

    def name(match: re.Match[str]) -> str:
        word = (match[1] or "").replace("-", "_")
        return word if word in names else match[0]

    return _OPTION.sub(name, text)

"""Functions for people who call them from Python: arguments checked by pydantic, errors that name them."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from pydantic import ConfigDict, ValidationError, validate_call

from trials.errors import ConfigError, PermafrostError, quote, unknown_name
from trials.outside.validation_rules import join_rules, rule_of

P = ParamSpec("P")
R = TypeVar("R")
_OPTION = re.compile(r"`[^`]*`|--([a-z]+(?:-[a-z]+)*)")  # what stands in backticks is a command


def from_python(function: Callable[P, R], further: Collection[str] = ()) -> Callable[P, R]:
    """A function whose arguments are checked by their types, and whose errors name arguments, not a command's options.

    A path is taken where its text is meant.

    Args:
        further: Names of arguments that it takes as keywords, beside those of its signature.
    """
    parameters = [*inspect.signature(function).parameters]
    names = {*parameters, *further}
    checked = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            plain = {name: _plain(value) for name, value in named.items()}
            return checked(*map(_plain, args), **plain)  # type: ignore[arg-type]
        except ValidationError as error:
            raise ConfigError(_faults(error, parameters, names)) from error
        except PermafrostError as error:
            error.args = tuple(with_python_names(str(text), names) for text in error.args)
            raise

    return call


def _plain(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _faults(error: ValidationError, parameters: list[str], names: Collection[str]) -> list[str]:
    """A sentence for each argument that is wrong; those of a call are numbered."""
    wrong, rules, values = list[str](), dict[str, list[str]](), dict[str, object]()
    for details in error.errors(include_url=False):
        place = details["loc"][0]
        name = parameters[place] if isinstance(place, int) else place
        if details["type"] == "unexpected_keyword_argument":
            wrong.append(unknown_name(name, names))
        elif details["type"].startswith("missing"):
            wrong.append(f"{name}: is missing.")
        else:
            values.setdefault(name, details["input"])
            rules.setdefault(name, []).append("must be a path" if details["type"] == "path_type" else rule_of(details))
    return [*wrong, *(f"{name}: {quote(values[name])}: {join_rules(broken)}." for name, broken in rules.items())]


def with_python_names(text: str, names: Collection[str]) -> str:
    """A message with Python's arguments in place of a command's options: `max_hours` for `--max-hours`."""

    def name(match: re.Match[str]) -> str:
        word = (match[1] or "").replace("-", "_")
        return word if word in names else match[0]

    return _OPTION.sub(name, text)

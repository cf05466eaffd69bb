"""Translate pydantic's validation errors into our error messages."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from trials.errors import unknown
from trials.escaping.untrusted_text import quoted

MAX_VALUE = 200  # characters of a value in a message
MAX_MISTAKES = 50  # in a message


def wording(error: ErrorDetails, model: type[BaseModel]) -> str:
    """One sentence with the value, the rule and the fix; the caller puts the location before it."""
    if error["type"] == "extra_forbidden":
        inside = _model_at(model, error["loc"][:-1])
        return unknown(shortened(str(error["loc"][-1])), inside.model_fields if inside else ())
    if error["type"] == "missing":
        return "is missing. Add it."
    message = error["msg"].removeprefix("Value error, ")
    value, shown = error["input"], quoted(error["input"])
    if error["type"] == "model_type" and (inside := _model_at(model, error["loc"])):
        return f"{shown}: must be a mapping of some of: {', '.join(inside.model_fields)}."
    is_shown = isinstance(value, str | int | float) and repr(value) not in message
    return shortened(f"{shown}: {message}" if is_shown else message, 10 * MAX_VALUE)


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


def _model_at(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The class that validated the mapping at a path."""
    for key in path:
        if isinstance(key, str) and key in model.model_fields:
            inner = _model_in(model.model_fields[key].annotation)
            if inner is None:
                return None
            model = inner
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType, list, dict, tuple):
        return next((found for arg in typing.get_args(annotation) if (found := _model_in(arg))), None)
    return None

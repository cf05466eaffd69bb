"""Say what pydantic found wrong in the words of our error messages."""

from __future__ import annotations

import types
import typing
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from trials.errors import unknown


def wording(error: ErrorDetails, model: type[BaseModel]) -> str:
    """One sentence: the value, the rule, the way out. The place is put before it by the caller."""
    if error["type"] == "extra_forbidden":
        inside = _model_at(model, error["loc"][:-1])
        return unknown(str(error["loc"][-1]), inside.model_fields if inside else ())
    if error["type"] == "missing":
        return "is missing. Add it."
    message = error["msg"].removeprefix("Value error, ")
    value = error["input"]
    if error["type"] == "model_type" and (inside := _model_at(model, error["loc"])):
        return f"{value!r}: must be a mapping of some of: {', '.join(inside.model_fields)}."
    told = isinstance(value, str | int | float) and repr(value) not in message
    return f"{value!r}: {message}" if told else message


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

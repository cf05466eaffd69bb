"""What `trials` uses of pydantic, for a GPU machine that lacks it; on the path only where the real one is missing.

Values are converted (mappings to models, lists to tuples, integers to floats) and validators are run, but types are
hardly checked: the GPU run builds its settings from files that the real pydantic validates in the test suite.
"""

from __future__ import annotations

import copy
import json
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

IS_STAND_IN = True
_NOTHING: Any = object()


class ValidationError(ValueError):
    pass


class BeforeValidator:
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function


class AfterValidator(BeforeValidator):
    pass


class SerializeAsAny:
    def __class_getitem__(cls, kind: Any) -> Any:
        return kind


def ConfigDict(**settings: Any) -> dict[str, Any]:  # noqa: N802 - pydantic's name
    return settings


class Excluded:
    """Marks a field that is not dumped."""


def Field(default: Any = _NOTHING, *, exclude: bool = False, **bounds: Any) -> Any:  # noqa: N802 - pydantic's name
    return Excluded() if exclude else default


def model_validator(*, mode: str) -> Callable[[Any], Any]:
    return lambda function: _marked(function, "_model_validator", mode)


def field_validator(*names: str, mode: str = "after") -> Callable[[Any], Any]:
    return lambda function: _marked(function, "_field_validator", (names, mode))


def _marked(function: Any, name: str, value: Any) -> Any:
    setattr(getattr(function, "__func__", function), name, value)
    return function


class BaseModel:
    model_config: dict[str, Any] = {}
    model_fields: dict[str, None]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        for validate in cls._validators("_model_validator", "before"):
            values = validate(values)
        hints = cls._hints()
        unknown = sorted(set(values) - set(hints))
        if unknown and cls.model_config.get("extra") == "forbid":
            raise ValidationError(f"{cls.__name__}: unknown {', '.join(unknown)}")
        for name, hint in hints.items():
            value = values[name] if name in values else copy.deepcopy(getattr(cls, name, _NOTHING))
            if value is _NOTHING:
                raise ValidationError(f"{cls.__name__}: {name} is missing")
            for validate in cls._validators("_field_validator", name):
                value = validate(value)
            self.__dict__[name] = _converted(value, hint)
        self.__dict__["model_fields_set"] = set(values) & set(hints)
        for function in cls._validators("_model_validator", "after"):
            function(self)

    def __init_subclass__(cls, **unused: Any) -> None:
        cls.model_fields = dict.fromkeys(cls._hints())

    @classmethod
    @cache
    def _hints(cls) -> dict[str, Any]:
        hints = get_type_hints(cls, include_extras=True)
        fields = {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}
        return {name: hint for name, hint in fields.items() if not name.startswith(("model_", "_"))}

    @classmethod
    @cache
    def _validators(cls, kind: str, wanted: str) -> list[Any]:
        found = []
        for name in dir(cls):
            member = getattr(cls, name, None)
            mark = getattr(getattr(member, "__func__", member), kind, None)
            if mark == wanted or (isinstance(mark, tuple) and wanted in mark[0]):
                found.append(member)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValidationError(f"{type(self).__name__} is frozen")

    def _values(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in type(self)._hints()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values()})"

    @classmethod
    def model_validate(cls, value: Any) -> Any:
        return value if isinstance(value, cls) else cls(**value)

    @classmethod
    def model_validate_json(cls, text: str) -> Any:
        return cls(**json.loads(text))

    @classmethod
    def model_construct(cls, fields_set: Any = None, **values: Any) -> Any:
        made = cls.__new__(cls)
        made.__dict__.update(values, model_fields_set=set(fields_set or values))
        return made

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Any:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__ | dict(update or {}))
        return made

    def model_dump(
        self, *, mode: str = "python", include: Any = None, exclude: Any = None, exclude_defaults: bool = False
    ) -> dict[str, Any]:
        found = {}
        for name, value in self._values().items():
            inside = exclude.get(name) if isinstance(exclude, Mapping) else None
            is_excluded = exclude is not None and name in exclude and inside in (None, True)
            is_excluded |= any(isinstance(mark, Excluded) for mark in get_args(type(self)._hints()[name]))
            is_default = exclude_defaults and value == getattr(type(self), name, _NOTHING)
            if not is_excluded and not is_default and (include is None or name in include):
                found[name] = _dumped(value, mode, inside)
        return found

    def model_dump_json(self, **options: Any) -> str:
        return json.dumps(self.model_dump(mode="json", **options), separators=(",", ":"))


def _dumped(value: Any, mode: str, exclude: Any = None) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode=mode, exclude=exclude)
    if isinstance(value, tuple | list):
        return [_dumped(v, mode) for v in value] if mode == "json" else type(value)(_dumped(v, mode) for v in value)
    return value


def _converted(value: Any, hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        after = [mark.function for mark in arguments[1:] if isinstance(mark, AfterValidator)]
        for mark in reversed(arguments[1:]):
            is_before = isinstance(mark, BeforeValidator) and not isinstance(mark, AfterValidator)
            value = mark.function(value) if is_before else value
        value = _converted(value, arguments[0])
        for function in after:
            value = function(value)
        return value
    if origin in (Union, types.UnionType):
        return _first_that_fits(value, arguments)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(_converted(v, kind) for v, kind in zip(value, kinds, strict=True))
    if isinstance(hint, type) and issubclass(hint, BaseModel) and isinstance(value, Mapping):
        return hint(**value)
    if hint is float and type(value) is int:
        return float(value)
    if origin is not Literal and not isinstance(value, origin or (object if hint is Any else hint)):
        raise ValidationError(f"{value!r} is not {hint}")
    return value


def _first_that_fits(value: Any, hints: tuple[Any, ...]) -> Any:
    exact = [hint for hint in hints if type(value) is hint]
    for hint in exact or hints:
        try:
            return _converted(value, hint)
        except (ValidationError, TypeError):
            continue
    raise ValidationError(f"{value!r} is none of {hints}")

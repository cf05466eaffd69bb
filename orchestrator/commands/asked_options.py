"""The attributes of `ChooseOptions` as options of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from orchestrator.own_data.choose_options import ChooseOptions

DATA = (
    "task", "format", "words", "tags", "text", "pair", "label", "document", "scheme", "train", "dev", "test",
    "held_out", "folds",
)  # fmt: skip
"""What somebody's data are."""


def with_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command with these options, which it gets together, as `asked`; parameters of its own stay its own.

    Args:
        names: Attributes of `ChooseOptions`, and the command's own parameters among them, in the order of its help;
            own ones that are not named come last.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own["asked"]
        shared = {name: _parameter(name) for name in names if name not in own}

        @wraps(command)
        def wrapped(**values: Any) -> None:
            given = {name: values.pop(name, parameter.default) for name, parameter in shared.items()}
            command(
                asked=ChooseOptions(**{name: value for name, value in given.items() if value is not None}), **values
            )

        del wrapped.__wrapped__
        keyword = {name: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, parameter in own.items()}
        parameters = {name: (shared | keyword)[name] for name in (*names, *own)}
        wrapped.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        wrapped.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
        return wrapped

    return decorate


def _parameter(name: str) -> inspect.Parameter:
    """An attribute of `ChooseOptions` as Typer knows it, which repeats an option for a list or None only."""
    kind, *about = get_args(get_type_hints(ChooseOptions, include_extras=True)[name])
    default: Any = getattr(ChooseOptions, name)
    if get_origin(kind) is Sequence:
        kind, default = list[str] | None, None
    annotation: Any = Annotated[kind, *about]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

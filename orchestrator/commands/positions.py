"""Let every command take its store and sweep as arguments as well as options, and refuse numbers that are not finite.

Commands declare only the options `--store` and `--sweep`. A command with an argument of its own gets no others.

    permafrost launch my.yaml            # a command that runs a sweep: its file
    permafrost answer results first      # a command that reads: the store, then a sweep of it
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo

STORE, SWEEP = "store", "sweep"
SWEEPS = "sweeps"  # the folder of a store that holds a folder for each sweep
_AT = "_by_position"


def with_places(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that its store and sweep are arguments as well as options.

    The wrapped command raises `typer.BadParameter` if an argument and its option name different things.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters, places = signature.parameters, _places(signature)
    if not places:
        return command

    @functools.wraps(command)
    def placed(**given: Any) -> Any:
        for name in places:
            by_position = given.pop(name + _AT)
            if by_position is None:
                continue
            if given[name] not in (parameters[name].default, by_position):
                raise typer.BadParameter(f"{by_position} and --{name} {given[name]} name two; give one.")
            given[name] = by_position
            if name == STORE and SWEEP in places and given.get(SWEEP + _AT) is None:
                _refuse_sweep(by_position)
        return command(**given)

    # Keyword-only, because a required option has no default and would otherwise have to precede the arguments.
    by_keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters.values()]
    everything = [*(_argument(name, parameters[name]) for name in places), *by_keyword]
    placed.__signature__ = signature.replace(parameters=everything)  # type: ignore[attr-defined]
    placed.__annotations__ = {parameter.name: parameter.annotation for parameter in everything}
    return placed


def _refuse_sweep(word: str) -> None:
    """Raise BadParameter if the word given as a store is the name of a sweep in the default store."""
    from orchestrator.config.console import DEFAULT_STORE  # late, so that listing the commands stays fast

    sweep = str(Path(DEFAULT_STORE) / SWEEPS / word)
    # `os.path`, because `Path.exists` raises for a word that is longer than a path may be.
    if Path(word).name == word and not os.path.exists(word) and os.path.isdir(sweep):  # noqa: PTH110, PTH112
        raise typer.BadParameter(
            f"there is no store {word}, but the store {DEFAULT_STORE} has a sweep of that name: "
            f"`{DEFAULT_STORE} {word}`."
        )


def _places(signature: inspect.Signature) -> list[str]:
    parameters = signature.parameters
    has_own = any(
        isinstance(info, ArgumentInfo) for parameter in parameters.values() for info in get_args(parameter.annotation)
    )
    if has_own:
        return []
    if _runs_a_file(signature):
        return [SWEEP]
    return [name for name in (STORE, SWEEP) if name in parameters] if STORE in parameters else []


def _runs_a_file(signature: inspect.Signature) -> bool:
    return SWEEP in signature.parameters and Path in _types(signature.parameters[SWEEP])


def _types(parameter: inspect.Parameter) -> tuple[Any, ...]:
    kind = get_args(parameter.annotation)[0]
    return get_args(kind) or (kind,)


def _argument(name: str, option: inspect.Parameter) -> inspect.Parameter:
    """The optional argument that stands for an option."""
    kind = Path if Path in _types(option) else str
    metavar = "FILE" if kind is Path else name.upper()
    parser = next(info.parser for info in get_args(option.annotation) if isinstance(info, OptionInfo))
    about = typer.Argument(metavar=metavar, parser=parser, help=f"The same as --{name}.", show_default=False)
    annotation: Any = Annotated[Path | None, about] if kind is Path else Annotated[str | None, about]
    return inspect.Parameter(name + _AT, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def with_finite_numbers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that it refuses NaN and infinity in every option, as bounds checks let them pass.

    The wrapped command raises `typer.BadParameter` for such a value.
    """

    @functools.wraps(command)
    def checked(**given: Any) -> Any:
        for name, value in given.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise typer.BadParameter(f"--{name.replace('_', '-')} {value}: must be a finite number.")
        return command(**given)

    return checked

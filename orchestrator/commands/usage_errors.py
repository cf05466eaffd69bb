"""Mistakes on a command line in one line each, as every other error has; typer would draw a box of five around them.

error: --tolerance nan: must be a number from 0 to 100. `permafrost answer --help` lists the options.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperGroup


class OneLineGroup(TyperGroup):
    """The commands of a console script, which ends with one line where its arguments are not understood."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Run the command that the arguments name."""
        if not options.get("standalone_mode", True):
            return super().main(args, *others, **options)
        options["standalone_mode"] = False  # raises what typer would show
        try:
            code = super().main(args, *others, **options)
        except typer.TyperException as error:
            if error.format_message():  # the help was printed already where nothing was asked
                from trials.escaping import escape_line  # the list of commands needs no more than typer

                sys.stderr.write(f"error: {escape_line(in_words(error))}{_where_to_look(error)}\n")
            sys.exit(error.exit_code)
        except typer.Abort:
            sys.stderr.write("Aborted.\n")
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def in_words(error: typer.TyperException) -> str:
    """What is wrong with a command line."""
    param: Any = getattr(error, "param", None)
    refused: Any = getattr(error.__cause__, "errors", list)()  # pydantic's, where a value is not of its option's type
    if param is not None and refused:
        value = str(refused[0]["input"])
        name = param.opts[0] if param.param_type_name == "option" else param.human_readable_name
        kind = param.type_descriptor.annotation
        if get_origin(kind) is Literal:
            from trials.errors import unknown_name

            return f"{name}: {unknown_name(value, get_args(kind))}"
        if kind in (int, float):
            return f"{name} {value if value.strip() else repr(value)}: must be {_number(kind, param.min, param.max)}."
    # An error without a parameter is of our own words, to which typer would add that a value is invalid.
    text = error.message if isinstance(error, typer.BadParameter) and param is None else error.format_message()
    return f"{text[0].lower()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def _number(kind: type, least: float | None, most: float | None) -> str:
    """The numbers that an option takes: `a whole number from 1 to 64`."""
    name = "a whole number" if kind is int else "a number"
    if least is None:
        return name if kind is int else "a finite number"
    return f"{name} of at least {least:g}" if most is None else f"{name} from {least:g} to {most:g}"


def _where_to_look(error: typer.TyperException) -> str:
    context: Any = getattr(error, "ctx", None)
    if context is None:
        return ""
    listed = "commands" if hasattr(context.command, "commands") else "options"
    return f" `{context.command_path} --help` lists the {listed}."

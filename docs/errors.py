"""An index of the errors, from the code itself: what each says, where `…` stands for what it quotes, and its exit code.

Read are the messages that stand where an error is raised; those that a function puts together are not in the index.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from trials import errors
from trials.errors import ConfigError, PermafrostError

ROOT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "trials", "dashboards")
QUOTED = "…"
_LEAST_WORDS = 3  # of a message that one can look for
TITLES = {
    2: "A setting is wrong",
    3: "Something is missing or broken",
    4: "Refused for safety",
    5: "Nothing matched",
    70: "In a trial or inside: told in its row or the log",
}


class Message(NamedTuple):
    """What an error says, and from which module."""

    text: str
    code: int
    module: str


@cache
def messages() -> tuple[Message, ...]:
    """Every message once, in the order of the alphabet."""
    found = {message for path in sorted(_files()) for message in _of(path)}
    return tuple(sorted(found, key=lambda each: (each.text.lstrip(f"{QUOTED}`'\": ").lower(), each)))


def _files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (ROOT / package).rglob("*.py")


def _of(path: Path) -> Iterator[Message]:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "raise " in text else ():
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            kind = _error(node.exc.func.id, module)
            if kind is not None and node.exc.args:
                said = " ".join(_text(node.exc.args[0]).split())
                if sum(word.strip(f"{QUOTED}.,:;'()").isalpha() for word in said.split()) >= _LEAST_WORDS:
                    yield Message(said, _code(kind, node.exc), module)


def _error(name: str, module: str) -> type[PermafrostError] | None:
    """An error class by the name that a module uses for it; None for one that no user causes."""
    kind = getattr(errors, name, None) or getattr(import_module(module), name, None)
    return kind if isinstance(kind, type) and issubclass(kind, PermafrostError) else None


def _code(kind: type[PermafrostError], call: ast.Call) -> int:
    given = next((each.value for each in call.keywords if each.arg == "exit_code"), None)
    if isinstance(given, ast.Constant) and isinstance(given.value, int):
        return given.value
    return 2 if issubclass(kind, ConfigError) and kind.exit_code == PermafrostError.exit_code else kind.exit_code


def _text(node: ast.expr) -> str:
    """A message in the source; what it fills in becomes `QUOTED`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_text, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return QUOTED


def errors_page() -> str:
    """The index in Markdown."""
    parts = [
        "# Errors\n\nWhat our errors say and mean. Look for some words of yours: `…` stands for what it quotes, "
        "such as a file or a value. Each says what is wrong, where, and what to do; beside it is the module that does. "
        "Commands end with the [exit code](exit-codes.md) of the heading. `--debug` shows the traceback, too.\n"
    ]
    found = messages()
    for code, title in TITLES.items():
        mine = [each for each in found if each.code == code]
        lines = [f"| {_cell(each.text)} | `{each.module}` |" for each in mine]
        parts.append("\n".join([f"## {code}: {title}\n", "| message | said by |", "| --- | --- |", *lines, ""]))
    return "\n".join(parts)


def _cell(text: str) -> str:
    for mark in "\\|<>[]*_`":
        text = text.replace(mark, f"\\{mark}")
    return text

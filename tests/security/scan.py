"""Calls that could run or read what somebody else supplied, beyond those that ruff's S and TID251 refuse."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

# What transformers would otherwise offer: a repository's own code, and a look at the hub.
FROM_PRETRAINED = {"trust_remote_code": "False", "local_files_only": "True"}


def dangers(source: str) -> list[str]:
    """`line: what` of everything in a module that is not allowed."""
    return [f"{call.lineno}: {what}" for call in _calls(source, _DANGERS) for what in _dangers(call)]


def _calls(source: str, words: re.Pattern[str]) -> Iterator[ast.Call]:
    """All calls of a module that has any of the words; most have none, and to parse them all takes seconds."""
    if words.search(source):
        yield from (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


_DANGERS = re.compile(r"compile|__import__|import_module|shell|allow_pickle|from_pretrained")
_READERS = re.compile(r"open\(|read_text|read_bytes|safe_open|memmap|fromfile|load\(")


def _dangers(call: ast.Call) -> Iterator[str]:
    name, given = _dotted(call.func), {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if name in ("compile", "__import__"):
        yield f"{name}()"
    if name == "importlib.import_module" and not (call.args and isinstance(call.args[0], ast.Constant)):
        yield "importlib.import_module() of a name that is not written down"
    if given.get("shell", "False") != "False":
        yield f"{name}(shell=...)"
    if name in ("np.load", "numpy.load") and "allow_pickle" in given:
        yield f"{name}(allow_pickle=...)"
    if name.endswith(".from_pretrained"):
        yield from (f"{name}() without {k}={v}" for k, v in FROM_PRETRAINED.items() if given.get(k) != v)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def readers(source: str) -> list[str]:
    """`line: call` of every call in a module that may read a file by its name, other than those of `plain_files`."""
    return [f"{node.lineno}: {ast.unparse(node.func)}" for node in _calls(source, _READERS) if _reads(node)]


def _reads(call: ast.Call) -> bool:
    name = _dotted(call.func)
    last = call.func.attr if isinstance(call.func, ast.Attribute) else name
    if name in ("open", "os.open", "io.open") or (isinstance(call.func, ast.Attribute) and last == "open"):
        words = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        return not any(word in ("w", "wb", "x", "xb", "a", "ab") for word in words)
    is_method = isinstance(call.func, ast.Attribute)
    return (
        (is_method and last in ("read_text", "read_bytes"))
        or last in ("safe_open", "memmap", "fromfile")
        or (name in ("np.load", "numpy.load"))
    )

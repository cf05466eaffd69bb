"""Each dotted name in backticks in a docstring or comment names something that exists."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for root in ("orchestrator", "trials", "dashboards")
    for path in sorted((ROOT / root).rglob("*.py"))
}
DOTTED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`", re.ASCII)
OURS = {"orchestrator", "trials", "dashboards", "tests"}
FILES = {
    "conllu",
    "csv",
    "html",
    "json",
    "md",
    "part",
    "py",
    "testa",
    "toml",
    "yaml",
}  # the last part of the name of a file
OTHERS = {"permafrost"}  # what trackers and packages call our parameters, tags and entry points


@cache
def trees() -> dict[str, ast.Module]:
    """All modules, parsed when they are asked for: every process of the tests imports this file."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


@cache
def by_last_names() -> dict[str, list[ast.Module]]:
    """The modules that a name may mean, whole or by its last parts: `sweeps.plan` is `orchestrator.sweeps.plan`."""
    found = defaultdict(list)
    for full, tree in trees().items():
        parts = full.split(".")
        for start in range(len(parts)):
            found[".".join(parts[start:])].append(tree)
    return found


@cache
def nodes() -> list[ast.AST]:
    """All nodes of all modules."""
    return [node for tree in trees().values() for node in ast.walk(tree)]


@cache
def classes() -> dict[str, ast.ClassDef]:
    """All classes, by name."""
    return {node.name: node for node in nodes() if isinstance(node, ast.ClassDef)}


@cache
def defined(node: ast.AST) -> dict[str, ast.AST]:
    """Whatever a module or class defines, imports, annotates or sets, by name."""
    names: dict[str, ast.AST] = {}
    for inner in ast.walk(node):
        match inner:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names[inner.name] = inner
            case ast.alias():
                names[inner.asname or inner.name] = inner
            case ast.Name(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                names[inner.id if isinstance(inner, ast.Name) else inner.attr] = inner
    return names


@cache
def annotated() -> dict[str, set[str]]:
    """The classes of ours that fields and arguments have, by their names: `columns.tokens` is one of `Columns`."""
    types: dict[str, set[str]] = defaultdict(set)
    for node in nodes():
        if isinstance(node, ast.arg) or (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
            types[name] |= set(re.findall(r"\w+", ast.unparse(node.annotation or ast.Constant("")))) & set(classes())
    return types


def attribute(node: ast.AST, rest: list[str]) -> bool:
    """Whether a chain of attributes leads from a module or class to something that it defines, or inherits."""
    if not rest:
        return True
    names = defined(node)
    bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in getattr(node, "bases", [])]
    if rest[0] not in names:
        return any(attribute(classes()[base], rest) for base in bases if base in classes())
    found = names[rest[0]]
    return attribute(found, rest[1:]) if isinstance(found, ast.ClassDef) else len(rest) == 1


@cache
def exists(name: str) -> bool:
    """Whether a name is a file's or a package's, or leads from something of ours to what is defined there."""
    parts = name.split(".")
    if parts[-1] in FILES or parts[0] in OTHERS:
        return True
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if any(attribute(tree, parts[length:]) for tree in by_last_names().get(module, ())):
            return True
    if any(
        attribute(classes()[name], parts[1:]) for name in {parts[0], *annotated().get(parts[0], ())} & set(classes())
    ):
        return True
    return parts[0] not in OURS and importlib.util.find_spec(parts[0]) is not None


def told(path: Path) -> list[tuple[int, str]]:
    """(line, name) of each dotted name in a string or comment of a file."""
    text = path.read_text(encoding="utf-8")  # of which only strings and comments have backticks
    return [(1 + text.count("\n", 0, match.start()), match[1]) for match in DOTTED.finditer(text)]


def test_dotted_names_resolve() -> None:
    missing = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in MODULES.values()
        for line, name in told(path)
        if not exists(name)
    ]
    assert missing == []

"""Calls that could run what somebody else supplied, found in the syntax tree of a module."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp", "shutil.unpack_archive",
    "yaml.load", "yaml.load_all", "yaml.full_load", "yaml.full_load_all", "yaml.unsafe_load", "yaml.unsafe_load_all",
    "pandas.read_pickle", "torch.hub.load",
}  # fmt: skip
FORBIDDEN_MODULES = {
    "marshal",
    "shelve",
    "dill",
    "joblib",
    "cloudpickle",
    "jsonpickle",
    "tarfile",
    "zipfile",
    "telnetlib",
}
FORBIDDEN_NAMES = {"yaml.Loader", "yaml.UnsafeLoader", "yaml.FullLoader", "yaml.CLoader", "yaml.CUnsafeLoader"}
FROM_PICKLE = {"UnpicklingError"}  # the only name anybody needs of it


def dangers(source: str, *, transformers: bool = True) -> list[str]:
    """`line: what` of everything in a module that is not allowed.

    Args:
        source: The module's text.
        transformers: Whether its models come from elsewhere, so that none of their own code may run.
    """
    tree = ast.parse(source)
    rules: list[Callable[[ast.AST], Iterator[str]]] = [_imports, _calls, _keywords]
    if transformers:
        rules.append(_models)
    return [f"{getattr(node, 'lineno', 0)}: {what}" for node in ast.walk(tree) for rule in rules for what in rule(node)]


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"import {n.name}" for n in node.names if n.name.split(".")[0] in FORBIDDEN_MODULES | {"pickle"})
    if isinstance(node, ast.ImportFrom) and node.module:
        root = node.module.split(".")[0]
        if root in FORBIDDEN_MODULES:
            yield f"from {node.module} import"
        if root == "pickle":
            yield from (f"from pickle import {n.name}" for n in node.names if n.name not in FROM_PICKLE)
        for name in node.names:
            if f"{node.module}.{name.name}" in FORBIDDEN_CALLS | FORBIDDEN_NAMES | {"torch.load", "numpy.load"}:
                yield f"from {node.module} import {name.name}: call it by its full name"


def _calls(node: ast.AST) -> Iterator[str]:
    name = _dotted(node)
    if isinstance(node, ast.Attribute) and name in FORBIDDEN_NAMES:
        yield name
    if isinstance(node, ast.Call) and (called := _dotted(node.func)) in FORBIDDEN_CALLS:
        yield f"{called}()"
    if isinstance(node, ast.Call) and _dotted(node.func) == "importlib.import_module" and not _is_word(node.args):
        yield "importlib.import_module() of a name that is not written down"


def _keywords(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    name, given = _dotted(node.func), {keyword.arg: keyword.value for keyword in node.keywords}
    if "shell" in given and not _is(given["shell"], value=False):
        yield f"{name}(shell=...)"
    if name == "torch.load" and not _is(given.get("weights_only"), value=True):
        yield "torch.load() without weights_only=True"
    if name in ("np.load", "numpy.load") and "allow_pickle" in given:
        yield f"{name}(allow_pickle=...)"


def _models(node: ast.AST) -> Iterator[str]:
    """A repository may bring its own code, which transformers offers to run unless it is told not to."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    if node.func.attr == "from_pretrained":
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        for key, value in (("trust_remote_code", False), ("local_files_only", True)):
            if not _is(given.get(key), value=value):
                yield f"from_pretrained() without {key}={value}"


def _is_word(arguments: list[ast.expr]) -> bool:
    return bool(arguments) and isinstance(arguments[0], ast.Constant)


def _is(node: ast.expr | None, *, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def readers(source: str) -> list[str]:
    """`line: call` of every call in a module that may read a file by its name, other than those of `plain_files`."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [f"{node.lineno}: {ast.unparse(node.func)}" for node in calls if _reads(node)]


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

"""What a person has to hold of this house, and no more than has landed: python -m tests.lab.structure

Part of `make lint`. It reads the files and imports none of them. A limit is lowered when a change goes below it, and
never raised to let one pass: what a change adds, it takes away elsewhere.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("orchestrator", "trials", "dashboards")
START = "orchestrator.commands.launch_command"
LIMITS = {
    "modules with a second docstring": 0,
    "modules that launch reaches": 136,
    "lines that launch reaches": 24_400,
    "import edges": 1_625,
    "import edges for 1,000 lines": 33,
    "names of ours that a module takes, most": 40,  # the gradient check of a node; else 35
    "modules that print, but are no command": 0,
}
"""Imports within functions count; those under TYPE_CHECKING do not. Lines, modules and their sizes have no limit: what
hurts a reader is how many other modules one has to know. What a launch reaches ends at a contract of plugs.
"""

PRINTERS = {f"orchestrator.config.console.{name}" for name in ("say", "write", "stdout", "stderr")}
COMMANDS = re.compile(r"(orchestrator|dashboards)\.commands\..+|orchestrator\.extras\.\w+\.\w+_command")
DOORS = {
    "orchestrator.config.command_line",  # what all commands share
    "orchestrator.config.notebook",  # where the functions of the API show what they do
}
"""What else may take a printer; all others are given where to say what they have to say."""


class Module(NamedTuple):
    """A file of ours.

    Attributes:
        imported: The modules that it names in imports, perhaps with a name that is none.
        n_names: How many names it takes from ours.
    """

    text: str
    imported: tuple[str, ...]
    n_names: int

    @property
    def n_lines(self) -> int:
        """Lines of the file."""
        return self.text.count("\n")


def modules() -> dict[str, Module]:
    """Every module by its dotted name."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {_name(path): _read(path.read_text(encoding="utf-8")) for path in files}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _read(text: str) -> Module:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = [ast.Pass()]
    taken = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES
        for alias in node.names
    ]
    return Module(text, tuple(dict.fromkeys(name for pair in taken for name in (pair[0], ".".join(pair)))), len(taken))


def reached(house: dict[str, Module], start: str) -> set[str]:
    """The modules that one imports, directly or by others, itself included."""
    seen, waiting = set[str](), [start]
    while waiting:
        name = waiting.pop()
        if name in house and name not in seen:
            seen.add(name)
            waiting += house[name].imported
    return seen


def edges(house: dict[str, Module], name: str) -> set[str]:
    """The modules that one imports; `from package import module` is an import of the module alone."""
    found = {*house[name].imported} & house.keys() - {name}
    return {one for one in found if not any(other.startswith(f"{one}.") for other in found)}


def has_second_docstring(text: str) -> bool:
    """Whether a comment stands alone after the first import, as the docstring of a module in the module would."""
    _, _, body = text.partition("\nfrom __future__ import annotations\n")
    return re.search(r"\n\n(?:#[^\n]*\n)+\n", body) is not None


def prints_but_is_no_command(name: str, module: Module) -> bool:
    """Whether a module takes what prints, and is neither a command nor a listed door."""
    return not PRINTERS.isdisjoint(module.imported) and name not in DOORS and COMMANDS.fullmatch(name) is None


def measured() -> dict[str, float]:
    """The figures that have a limit."""
    house = modules()
    files = [module for name, module in house.items() if not any(other.startswith(f"{name}.") for other in house)]
    of_launch = [house[name] for name in reached(house, START)]
    n_edges = sum(len(edges(house, name)) for name in house)
    return {
        "modules with a second docstring": sum(has_second_docstring(module.text) for module in files),
        "modules that launch reaches": len(of_launch),
        "lines that launch reaches": sum(module.n_lines for module in of_launch),
        "import edges": n_edges,
        "import edges for 1,000 lines": round(1000 * n_edges / sum(module.n_lines for module in house.values()), 1),
        "names of ours that a module takes, most": max(module.n_names for module in files),
        "modules that print, but are no command": sum(prints_but_is_no_command(*item) for item in house.items()),
    }


def main() -> int:
    """Print the figures; 1 if one is above its limit."""
    figures = measured()
    for name, value in figures.items():
        over = " TOO MANY" if value > LIMITS[name] else ""
        sys.stdout.write(f"{name:44} {value:>9,} of at most {LIMITS[name]:,}{over}\n")
    return int(any(value > LIMITS[name] for name, value in figures.items()))


if __name__ == "__main__":
    sys.exit(main())

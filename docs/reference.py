"""The reference as Markdown, from the code itself: settings from the pydantic models, commands from typer, tables from
Arrow's schemas, errors where they are raised, and the words that are registered. Nothing here knows a single key,
option or column by name.

python -m docs.reference writes the pages, which are part of the repository so that links lead somewhere on a forge.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import dashboards.cli  # noqa: F401  (its commands join those of the orchestrator)
from docs.errors import errors_page
from orchestrator.commands.app import COMMANDS, GROUPS, load_command
from orchestrator.config.command_line import common_options
from orchestrator.store.schema import COLUMNS, KEYS
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.search_spec import SEARCHES
from orchestrator.sweeps.sweep import SweepSpec
from trials.corpora.corpus import CORPUS_FORMATS
from trials.draft import TrialDraft
from trials.freeze.strategies import FREEZE_STRATEGIES
from trials.metrics.metric import METRICS
from trials.models.family import MODEL_FAMILIES
from trials.tasks import TASKS

Schema = dict[str, Any]
Table = Iterable[Iterable[str]]

# The page of each kind of file, its title, the model of the whole file, and what the file is.
FILES: dict[str, tuple[str, type[BaseModel], str]] = {
    "sweep": (
        "Sweep file",
        SweepSpec,
        "What `--sweep` names. `trial` and `space` take the keys of [a trial](trial.md).",
    ),
    "trial": ("Trial settings", TrialDraft, "The keys under `trial:` of a sweep and, with dots, under `space:`."),
    "cluster": ("Cluster file", ClusterSpec, "What `--cluster` may name: where a sweep runs."),
}
ABOUT: dict[str, str] = {}
if find_spec("orchestrator.extras.published"):  # an extra may be deleted
    from orchestrator.extras.published.study import Study

    FILES["study"] = ("Study file", Study, "A published study in `configs/published/`, as `compare` reads it.")
if find_spec("orchestrator.extras.store_care"):
    from orchestrator.extras.store_care.exports import ABOUT
_BOUNDS = {"exclusiveMinimum": "> {}", "minimum": "≥ {}", "exclusiveMaximum": "< {}", "maximum": "≤ {}"}


def table(header: Iterable[str], rows: Table) -> str:
    """A Markdown table; a vertical bar or a line break in a cell is written so that it stays inside."""
    head = [*header]
    lines = [head, ["---"] * len(head), *(map(_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# --- YAML keys


def described(model: type[BaseModel]) -> dict[str, str]:
    """What the docstrings of a model and of those that it extends say of each key."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        lines = inspect.cleandoc(cls.__dict__.get("__doc__") or "").partition("Attributes:\n")[2]
        for names, text in re.findall(r"^ {4}([\w, ]+): (.*(?:\n {8}.*)*)", lines, re.MULTILINE):
            found |= dict.fromkeys(names.split(", "), " ".join(text.replace("``", "`").split()))
    return {key: text for key, text in found.items() if key in model.model_fields}


def models_of(root: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The model of a file and every model inside it, in the order in which its keys name them."""
    found: dict[str, type[BaseModel]] = {}

    def visit(annotation: Any) -> None:
        is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        if is_model and annotation.__name__ not in found:
            found[annotation.__name__] = annotation
            for field in annotation.model_fields.values():
                visit(field.annotation)
        for inner in getattr(annotation, "__args__", ()):
            visit(inner)

    visit(root)
    return found


def file_page(name: str) -> str:
    """Every key of one kind of YAML file."""
    title, root, about = FILES[name]
    example = inspect.cleandoc(sys.modules[root.__module__].__doc__ or "")
    sections = [model_section(model, root) for model in models_of(root).values()]
    return "\n".join([f"# {title}\n\n{about}\n\n{example}\n", *sections])


def model_section(model: type[BaseModel], root: type[BaseModel]) -> str:
    """The keys of one model; that of the whole file needs no heading."""
    inside = model.model_json_schema()
    explained = described(model)
    rows = [
        (f"`{key}`", _kind(schema), _default(key, schema, inside), explained.get(key, ""))
        for key, schema in inside["properties"].items()
    ]
    summary = inspect.cleandoc(model.__doc__ or "").partition("Attributes:")[0].replace("``", "`").strip()
    heading = "" if model is root else f"## {model.__name__}\n\n"
    return f"{heading}{summary}\n\n{table(('key', 'value', 'default', 'meaning'), rows)}"


def _kind(schema: Schema) -> str:
    """The values that a key takes, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{word}`" for word in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "any")
    if kind == "array":
        inner = schema.get("items") or {"anyOf": schema.get("prefixItems", [{}])}
        return f"list of {_kind(inner)}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"mapping to {_kind(inner)}" if isinstance(inner, dict) else "mapping"
    bounds = ", ".join(text.format(schema[key]) for key, text in _BOUNDS.items() if key in schema)
    return f"{kind} {bounds}".strip()


def _default(key: str, schema: Schema, inside: Schema) -> str:
    if key in inside.get("required", ()):
        return "required"
    value = schema.get("default")
    if isinstance(value, dict) and len(json.dumps(value)) > 60:
        return "those below"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


# --- Commands


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name, e.g. `data fetch`, as typer built it."""
    for name in COMMANDS:
        yield name, load_command(name)
    for group in GROUPS:
        for name, command in load_command(group).commands.items():
            if f"{group} {name}" not in COMMANDS:
                yield f"{group} {name}", command


def commands_page() -> str:
    """Every command with its arguments and options."""
    shared = common_options()
    parts = [
        "# Commands\n\n`permafrost COMMAND --help` prints the same. [Exit codes](exit-codes.md) are one list for all. "
        "Every command takes these, too:\n\n" + table(("option", "default", "meaning"), map(_option_row, shared))
    ]
    common = {each.name for each in shared}
    for name, command in commands():
        rows = [_option_row(each) for each in command.params if not each.hidden and each.name not in {"help", *common}]
        usage = " ".join(_argument(each) for each in command.params if each.param_type_name == "argument")
        about = inspect.cleandoc(command.help or "").replace("\f", "")
        parts.append(
            f"## {name}\n\n```text\npermafrost {name} {usage}\n```\n\n{about}\n\n"
            + table(("option", "default", "meaning"), rows)
        )
    return "\n".join(parts)


def _option_row(option: Any) -> tuple[str, str, str]:
    return _option(option), _default_of(option), option.help or ""


def _argument(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name if argument.required else f"[{name}]"


def _option(option: Any) -> str:
    if option.param_type_name == "argument":
        return f"`{_argument(option)}`"
    value = "" if option.is_flag else f" {option.metavar or ''}".rstrip()
    return ", ".join(f"`{word}{value}`" for word in [*option.opts, *option.secondary_opts])


def _default_of(option: Any) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    default = option.default
    if default is None or default is False or callable(default) or default == []:
        return ""
    return f"`{default.name if isinstance(default, Path) else default}`"


# --- Tables of the store, and registered words


def tables_page() -> str:
    """Every table of the store with its key and columns."""
    parts = ["# Tables\n\n`open_store(...)` has a method for each; `permafrost export tables` writes them.\n"]
    for name, columns in COLUMNS.items():
        rows = [(f"`{column}`", f"`{kind}`", about) for column, (kind, about) in columns.items()]
        key = ", ".join(f"`{column}`" for column in KEYS[name])
        parts.append(f"## {name}\n\n{ABOUT.get(name, '')} Key: {key}.\n\n{table(('column', 'type', 'meaning'), rows)}")
    return "\n".join(parts)


def words_page() -> str:
    """Every registered word that a sweep file may use."""
    metrics = table(
        ("metric", "better", "meaning"),
        ((f"`{m.name}`", "higher" if m.higher_is_better else "lower", m.about) for m in METRICS.values()),
    )
    tasks = table(
        ("task", "selects by", "measures"),
        ((f"`{name}`", f"`{TASKS[name].metrics[0]}`", ", ".join(map(_code, TASKS[name].metrics))) for name in TASKS),
    )
    rules = table(
        ("strategy", "freezes"),
        ((f"`{name}`", inspect.getdoc(FREEZE_STRATEGIES[name]) or "") for name in FREEZE_STRATEGIES),
    )
    lists: dict[str, Iterable[str]] = {
        "Corpus formats": CORPUS_FORMATS,
        "Model families": MODEL_FAMILIES,
        "Searches": SEARCHES,
    }
    rest = "\n".join(f"## {title}\n\n{', '.join(map(_code, words))}.\n" for title, words in lists.items())
    return (
        "# Words of a sweep\n\nWhat is registered, and so may stand in a sweep file."
        f"\n\n## Tasks\n\n{tasks}\n## Metrics\n\n{metrics}\n## Freeze strategies\n\n{rules}"
        f"\n`layers` takes an explicit list instead.\n\n{rest}"
    )


def _code(word: str) -> str:
    return f"`{word}`"


def pages() -> Mapping[str, str]:
    """Path and Markdown of every generated page."""
    return {
        **{f"reference/{name}.md": file_page(name) for name in FILES},
        "reference/commands.md": commands_page(),
        "reference/errors.md": errors_page(),
        "reference/tables.md": tables_page(),
        "reference/words.md": words_page(),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        (Path(__file__).parent / "pages" / path).write_text(text, encoding="utf-8")

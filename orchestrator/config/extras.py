"""What the folders of `orchestrator/extras` add to the core, which knows none of them by name.

An extra says it in its `__init__.py`, as names and places in words, so that nothing is imported before it is asked for:

    COMMANDS  name: (place of the function, summary, panel of the list of commands)
    GROUPS    the same for groups of commands
    API       name in `orchestrator.api`: place
    MONITORS  keys of `watch`: the module whose `monitors` makes them
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from functools import cache
from typing import Any

PACKAGE = "orchestrator.extras"


@cache
def declared(kind: str) -> dict[Any, Any]:
    """What all extras declare under a name; empty where none is there."""
    found: dict[Any, Any] = {}
    for name in _names():
        found |= getattr(importlib.import_module(f"{PACKAGE}.{name}"), kind, {})
    return found


def _names() -> list[str]:
    spec = importlib.util.find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    return sorted(module.name for module in pkgutil.iter_modules(folders or []) if module.ispkg)


def loaded(place: str) -> Any:
    """The member of a module that a place names: `package.module:member`."""
    module, _, member = place.partition(":")
    return getattr(importlib.import_module(module), member)

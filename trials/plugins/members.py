"""Find the plugs of a package of ours: every module that lies in its folder, none of them known by name."""

from __future__ import annotations

import pkgutil
from importlib import import_module


def import_members(package: str) -> None:
    """Import every module of a package, the `__name__` of an `__init__`, so that each registers what it holds."""
    for member in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{member.name}")

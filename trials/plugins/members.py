"""Find the plugs of a package of ours: every module that lies in its folder, none of them known by name."""

from __future__ import annotations

import pkgutil
from importlib import import_module


def import_members(package: str) -> None:
    """Import every module of a package, in the order of their names, so that each registers what it holds.

    Args:
        package: Its dotted name, as `__name__` is in its `__init__`.
    """
    for member in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{member.name}")

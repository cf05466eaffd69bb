"""Where a top-level package or module is imported from, whatever the working folder or a script's folder holds.

Python looks into the folder of a script, a notebook or `python -m` first, and Ray puts that folder first in its
workers: a `trials.py` there would be taken for our package. A name that is pinned here is looked up in one folder only.
The packages' `__init__` files import this module, so that whichever of ours is imported first pins all of them.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

OURS = ("orchestrator", "trials", "dashboards")
ROOT = __file__.rpartition("trials")[0].rstrip("/\\")
"""The folder of our packages: a checkout, or the site-packages of an installation. A Ray job has a folder for each."""

_folders: dict[str, str] = {}


class _PinnedFinder:
    """A meta path finder for the pinned names; Python's own finds everything else."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module in its folder; None for a name that is not pinned."""
        return PathFinder.find_spec(name, [_folders[name]]) if name in _folders else None


def pin(name: str, folder: str) -> None:
    """From now on import a top-level package or module from this folder.

    Raises:
        ImportError: It has been imported from somewhere else.
    """
    _folders[name] = folder
    there = PathFinder.find_spec(name, [folder])
    imported, expected = place_of(name), None if there is None else there.origin
    if imported is not None and imported != expected:
        del _folders[name]
        raise ImportError(
            f"{name}: {imported} was imported under this name before, and {expected} has it too. Rename the former, or "
            "import the latter first."
        )


def folders_for_other_processes() -> list[str]:
    """What must be on the path of another Python for it to find our packages: none if Python looks there by itself."""
    folders = dict.fromkeys(_folders[name] for name in OURS if name in _folders)
    searched = {os.path.realpath(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    return [folder for folder in folders if os.path.realpath(folder) not in searched]


def place_of(name: str) -> str | None:
    """The file that a top-level package or module was imported from; None if it was not imported, or has none."""
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)


if _PinnedFinder not in sys.meta_path:
    sys.meta_path.insert(0, _PinnedFinder)
    for _name in OURS:
        _own = getattr(sys.modules.get(_name), "_ROOT", ROOT)  # of the one that is importing this module
        if PathFinder.find_spec(_name, [_own]) is not None:
            pin(_name, _own)

"""A package of somebody else's with a plug-in, as an installation leaves it on Python's path."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas  # noqa: F401 - which cannot be imported while `sys.modules` is a copy
import pytest

from trials.plugins import import_origins, loading
from trials.plugins.registry import registries

ENDS = '''
"""As many of the first layers as of the last."""

from trials.freeze.strategies import FREEZE_STRATEGIES

from .order import outside_in


@FREEZE_STRATEGIES.register("ends")
def ends(n_layers: int, depth: int) -> frozenset[int]:
    """An even number of layers, from both ends."""
    return frozenset(outside_in(n_layers)[:depth]) if depth % 2 == 0 else frozenset()
'''
ORDER = '''
def outside_in(n_layers: int) -> list[int]:
    """First, last, second, last but one, ..."""
    return [n // 2 if n % 2 == 0 else n_layers - 1 - n // 2 for n in range(n_layers)]
'''


def install(folder: Path, code: str = ENDS, name: str = "freeze_ends") -> Path:
    """Write the package with its entry point into a folder that is to be on Python's path."""
    package, info = folder / name, folder / f"{name}-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(code)
    (package / "order.py").write_text(ORDER)
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[permafrost.plugins]\n{name} = {name}\n")
    return folder


@pytest.fixture
def fresh_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test loads and registers is gone after it."""
    for registry in list(registries()):
        monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
        monkeypatch.setattr(registry, "_modules", dict(registry._modules))
    monkeypatch.setattr(loading, "_loaded", {})
    monkeypatch.setattr(import_origins, "_folders", dict(import_origins._folders))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

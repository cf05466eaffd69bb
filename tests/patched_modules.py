"""Modules that are patched once they are loaded, in processes whose `sitecustomize` asks for it."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class PatchedModules(importlib.abc.MetaPathFinder):
    """Finds the modules of these names where they are, and patches them."""

    def __init__(self, patches: Mapping[str, Callable[[Any], None]]) -> None:
        self._patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._patches:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((s for f in others if (s := f.find_spec(fullname, path, target)) is not None), None)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_patch(module: ModuleType) -> None:
            load(module)
            self._patches[fullname](module)

        spec.loader.exec_module = load_and_patch  # type: ignore[method-assign]
        return spec

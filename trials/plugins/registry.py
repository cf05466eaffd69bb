"""Registries: the names that a YAML file may use for one kind of plugin, and their implementations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from trials.errors import UnknownNameError, unknown_name
from trials.plugins.import_origins import OURS

T = TypeVar("T")

NOT_LOADED = "plug-in not loaded"  # what stands beside a name that a store has and no module registered
HINT = "One of a plug-in: name its module under `plugins`, or with --plugin."

_registries: WeakSet[Registry[Any]] = WeakSet()


class Registry(Generic[T]):
    """Plugins of one kind by name.

    Attributes:
        kind: What they are, for error messages.
    """

    def __init__(self, kind: str, *, reserved: Collection[str] = ()) -> None:
        """An empty registry; words that are reserved mean something else in the same place."""
        self.kind, self._reserved = kind, reserved
        self._plugins: dict[str, T] = {}
        self._modules: dict[str, str] = {}  # of each plugin that is not ours
        _registries.add(self)

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that registers a plugin under the name that YAML files use.

        Raises:
            ValueError: Another module has registered the name. The same one may do so again, as a notebook does.
        """

        def add(plugin: T) -> T:
            module = _registering_module()
            if name in self._reserved:
                raise ValueError(f"{self.kind} {name!r}: this word has a meaning of its own. Choose another name.")
            if name in self._plugins and (module is None or self._modules.get(name) != module):
                registrar = self._modules.get(name) or "Permafrost"
                raise ValueError(f"{self.kind} {name!r} is registered by {registrar} already. Choose another name.")
            self._plugins[name] = plugin
            if module is not None:
                self._modules[name] = module
            return plugin

        return add

    def __getitem__(self, name: str) -> T:
        """The plugin of that name. Raises an UnknownNameError that lists the known names."""
        if name not in self._plugins:
            raise UnknownNameError(f"{unknown_name(name, self._plugins)} {HINT}")
        return self._plugins[name]

    def get(self, name: str) -> T | None:
        """The plugin of this name; None if it is not registered: a store may hold trials of plugins not loaded."""
        return self._plugins.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._plugins))

    def values(self) -> tuple[T, ...]:
        """The plugins in the order in which they were registered."""
        return tuple(self._plugins.values())

    def items(self) -> tuple[tuple[str, T], ...]:
        """Names and plugins in that order."""
        return tuple(self._plugins.items())

    def our_values(self) -> tuple[T, ...]:
        """The plugins that are part of Permafrost."""
        return tuple(plugin for name, plugin in self._plugins.items() if name not in self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._plugins


def registries() -> tuple[Registry[Any], ...]:
    """All registries, whatever they hold."""
    return tuple(_registries)


def outside_modules() -> list[str]:
    """The modules that are not ours and have registered something."""
    return sorted(
        {registry._modules[name] for registry in _registries for name in registry._plugins if name in registry._modules}
    )


def _registering_module() -> str | None:
    """The module that calls `register`, perhaps through functions of ours; None if it is one of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in OURS:  # what imports one of ours is Python's own machinery
            return None if name.startswith(("importlib.", "_frozen_importlib")) else name
        frame = frame.f_back
    return None

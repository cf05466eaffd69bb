"""A registry: the names that a YAML file may use for one kind of plugin, and their implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from trials.errors import unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Plugins of one kind by name.

    Attributes:
        kind: What they are, for error messages.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._plugins: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that registers a plugin under the name that YAML files use; a name is registered once."""

        def add(plugin: T) -> T:
            assert name not in self._plugins, f"{self.kind} {name!r} is registered twice"
            self._plugins[name] = plugin
            return plugin

        return add

    def __getitem__(self, name: str) -> T:
        """The plugin of that name. Raises a ValueError that lists the known names."""
        if name not in self._plugins:
            raise ValueError(unknown(name, self._plugins))
        return self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._plugins))

    def values(self) -> tuple[T, ...]:
        """The plugins in the order in which they were registered."""
        return tuple(self._plugins.values())

    def __contains__(self, name: object) -> bool:
        return name in self._plugins

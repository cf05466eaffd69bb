"""A registry: the words that a YAML file may use for one kind of plug, and what each stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from trials.errors import unknown

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to plugs of one kind.

    Attributes:
        kind: What the plugs are, in the words of an error message.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._plugs: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files a plug under the word the YAML uses; a word is given once."""

        def add(plug: T) -> T:
            assert name not in self._plugs, f"{self.kind} {name!r} is registered twice"
            self._plugs[name] = plug
            return plug

        return add

    def __getitem__(self, name: str) -> T:
        """The plug of that name. Raises ValueError that lists the known names."""
        if name not in self._plugs:
            raise ValueError(unknown(name, self._plugs))
        return self._plugs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._plugs))

    def values(self) -> tuple[T, ...]:
        """The plugs in the order in which they were registered."""
        return tuple(self._plugs.values())

    def __contains__(self, name: object) -> bool:
        return name in self._plugs

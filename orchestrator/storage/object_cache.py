"""A cache of objects that this process has read from remote stores: they never change, so each is fetched once."""

from __future__ import annotations

import threading
from collections import OrderedDict

import pyarrow as pa

CACHE_BYTES = 256 * 2**20


class ObjectCache:
    """A least-recently-used cache of objects, by address.

    Attributes:
        limit_bytes: Maximum total size of the objects.
    """

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._objects: OrderedDict[str, pa.Buffer] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> pa.Buffer | None:
        """The object, if it is in the cache."""
        with self._lock:
            if key in self._objects:
                self._objects.move_to_end(key)
            return self._objects.get(key)

    def put(self, key: str, content: pa.Buffer) -> None:
        """Add an object, if it fits."""
        self.drop(key)
        with self._lock:
            if content.size <= self.limit_bytes:
                self._objects[key] = content
                self.held_bytes += content.size
            while self.held_bytes > self.limit_bytes:
                self.held_bytes -= self._objects.popitem(last=False)[1].size

    def drop(self, key: str) -> None:
        """Remove an object."""
        with self._lock:
            if key in self._objects:
                self.held_bytes -= self._objects.pop(key).size


CACHE = ObjectCache()  # shared by the whole process

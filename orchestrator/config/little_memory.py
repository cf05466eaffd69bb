"""A word where memory ends, instead of a process that hangs or aborts. The list of commands imports this."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

_MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
LEAST_BYTES = {"": 1 << 30, "torch": 3 << 30, "ray": (8 << 30) + 3 * _MEMORY // 10}
"""Of address space (`ulimit -v`): of a command, and of libraries; Ray maps 30 % of the machine's memory."""


class _LimitedImports(MetaPathFinder):
    """Raises MemoryError instead of importing what would not fit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def find_spec(self, name: str, *_: object) -> None:
        if self._limit < LEAST_BYTES.get(name, 0):
            raise MemoryError


@contextmanager
def memory_in_words() -> Iterator[None]:
    """End this process with a message if a command, or a library that it imports, runs out of memory.

    With less than `LEAST_BYTES` libraries written in C hang or abort while they are loaded, so they are not.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    try:
        if limit != resource.RLIM_INFINITY:
            _LimitedImports(limit).find_spec("")
            sys.meta_path.insert(0, _LimitedImports(limit))
        yield
    except Exception as error:
        from trials.errors import is_out_of_memory  # not needed by a list of commands

        if not is_out_of_memory(error):
            raise
        from orchestrator.config.console import NO_MEMORY

        sys.stderr.write(f"{NO_MEMORY}\n")
        sys.exit(1)

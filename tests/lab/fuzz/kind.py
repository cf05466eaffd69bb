"""What kinds of input files there are to break."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.lab.fuzz.mutations import mutated

Mutate = Callable[[random.Random, bytes], bytes | None]


class Kind(NamedTuple):
    """A kind of input file.

    Attributes:
        path: Where the whole one is.
        read: What reads it, or the folder it is in.
        mutate: What happens to it; None if it is deleted.
    """

    path: Path
    read: Callable[[], object]
    mutate: Mutate = mutated

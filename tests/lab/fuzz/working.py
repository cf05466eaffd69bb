"""What a process of the long form does: inputs one after the other, each told with what came of it."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.lab.fuzz.configurations import Configurations
from tests.lab.fuzz.environments import Environments
from tests.lab.fuzz.files import Files
from tests.lab.fuzz.judging import Verdict
from tests.lab.fuzz.models import Models
from tests.lab.fuzz.names import Names

Family = Literal["configuration", "file", "model", "environment", "name"]
MEMORY_BYTES = 8 << 30  # of a process: a bomb is a MemoryError, and so a finding


class Tried(NamedTuple):
    """An input and what came of it."""

    family: Family
    number: int
    kind: str
    verdict: Verdict


def work(told: Connection, family: Family, seed: int, start: int, stop: int) -> None:
    """Try the inputs from one number to another and tell of each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        os.environ["PERMAFROST_CACHE"] = cache  # apart: what a plan works out of a corpus is kept there
        inputs = inputs_of(family, Path(folder), seed)
        for number in range(start, stop):
            made = inputs.make(number)
            told.send(Tried(family, number, made.kind, inputs.try_out(made)))


def inputs_of(family: str, folder: Path, seed: int) -> Any:
    """What makes and tries inputs of a family."""
    made: dict[str, Callable[[Path, int], Any]] = {
        "configuration": Configurations, "file": Files, "model": Models, "environment": Environments,
        "name": Names,
    }  # fmt: skip
    return made[family](folder, seed)

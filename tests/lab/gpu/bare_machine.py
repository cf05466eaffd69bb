"""A machine with torch and transformers and little else, made of links to what is installed here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.lab.gpu.carry import MACHINE, unpack
from tests.linked_environment import linked_environment, with_requirements

KEPT = ("CUDA_VISIBLE_DEVICES", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER")  # of this machine's variables


def bare_machine(folder: Path, packages: Sequence[str] = MACHINE) -> tuple[Path, dict[str, str]]:
    """Its interpreter, and its variables: nothing of our own environment, nor of this checkout."""
    python = linked_environment(folder, with_requirements(packages))
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return python, kept | {"PATH": f"{python.parent}:/usr/local/bin:/usr/bin:/bin"}


def rehearse_bare(carried: Path, folder: Path, words: Sequence[str]) -> int:
    """Unpack what is carried beside such a machine's packages and rehearse there; the exit code."""
    python, variables = bare_machine(folder / "machine")
    variables |= unpack(carried, folder / "carried")
    command = [str(python), "-m", "tests.lab.gpu", "--rehearse", *words]
    return subprocess.run(command, cwd=folder / "carried" / "project", env=variables, check=False).returncode

"""What loads what: a plan, a status and a help text come without torch, transformers or Ray."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "ray", "pandas", "datasets"}


@pytest.mark.parametrize(
    "module",
    [
        "trials.spec",
        "trials.record",
        "trials.draft",
        "orchestrator.store",
        "orchestrator.launch",
        "orchestrator.status",
    ],
)
def test_importing_it_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*{HEAVY!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_orchestrator_is_silent_when_imported() -> None:
    code = "import orchestrator.launch, trials.run"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")

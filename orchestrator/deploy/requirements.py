"""What this project requires, whether it is installed or a plain checkout."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import trials

DISTRIBUTION = "permafrost-sweeps"


def requirements(folder: Path = Path(trials.__file__).parents[1]) -> list[str]:
    """As in pyproject.toml, e.g. ``torch>=2.13``: a checkout's file says more than what was installed from it once.

    Args:
        folder: Where our packages lie.

    Raises:
        importlib.metadata.PackageNotFoundError: There is neither that file nor an installed distribution.
    """
    declared = folder / "pyproject.toml"
    if declared.is_file():
        project = tomllib.loads(declared.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == DISTRIBUTION:
            return list(project["dependencies"])
    return importlib.metadata.requires(DISTRIBUTION) or []

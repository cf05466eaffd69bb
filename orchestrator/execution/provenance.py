"""What made a row: the commit of this code, and the versions that a result depends on."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path

import trials
from trials.plugins.loading import source_digests


@cache
def git_commit() -> str | None:
    """The commit of this code, with `+` if it has uncommitted changes; None outside a checkout."""
    here = Path(__file__).parent
    try:
        processes = [
            subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True, timeout=10)
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return processes[0].stdout.strip() + ("+" if processes[1].stdout.strip() else "")


@cache
def versions() -> dict[str, str]:
    """The versions that a result depends on; of plug-ins, the beginnings of their sources' digests."""
    packages = ("torch", "transformers", "tokenizers", "ray", "numpy")
    return (
        {"python": platform.python_version(), "permafrost-sweeps": trials.__version__}
        | {name: version for name in packages if (version := _version(name)) is not None}
        | {f"plug-in {module}": digest[:16] for module, digest in source_digests().items()}
    )


def _version(package: str) -> str | None:
    """None if it is not installed, as Ray for `--cluster inline` need not be."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None

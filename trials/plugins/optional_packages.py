"""Packages that only some of what a person can ask for needs: the extras of `pyproject.toml`."""

from __future__ import annotations

from importlib.util import find_spec

from trials.errors import ConfigError


def lacking(package: str, extra: str, purpose: str) -> str:
    """What a message says where a package is not installed; empty where it is.

    Args:
        package: The module that is imported.
        extra: The extra that installs it.
        purpose: What needs it, as the beginning of the sentence.
    """
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:  # a mere folder of that name, as W&B makes one, has no origin
        return ""
    return f"{purpose} needs {package}, which is not installed. Run: pip install 'permafrost-sweeps[{extra}]'"


def require(package: str, extra: str, purpose: str) -> None:
    """Raise ConfigError, with exit code 2, if a package is not installed; the arguments are those of `lacking`."""
    if problem := lacking(package, extra, purpose):
        raise ConfigError(problem)

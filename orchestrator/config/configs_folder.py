"""Where `configs/` is: at the top of a checkout, inside this package in an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def configs_folder(name: str) -> Path:
    """A folder of `configs/`: `sweeps`, `clusters` or `published`."""
    installed = _PACKAGE / "configs"
    return (installed if installed.is_dir() else _PACKAGE.parent / "configs") / name

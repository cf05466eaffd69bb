"""What pip is set to on this machine, for an installation inside another root."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_DEFAULTS = {"PIP_CERT": "/etc/ssl/certs/ca-certificates.crt", "PIP_DEFAULT_TIMEOUT": "180"}


def pip_settings() -> dict[str, str]:
    """What pip is set to on this machine, as variables."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for line in lines:
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if section in ("global", ":env:"):
            found[f"PIP_{option.upper().replace('-', '_')}"] = value.strip("'\"").replace("\\n", " ").strip()
    return _DEFAULTS | found


def local_folders(settings: dict[str, str]) -> Iterator[Path]:
    """Folders of this machine in which pip looks."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        for word in settings.get(name, "").split():
            path = Path(word.removeprefix("file://"))
            if path.is_absolute() and path.is_dir():
                yield path if name == "PIP_FIND_LINKS" else path.parent  # an index's files lie beside it


def as_file(settings: Mapping[str, str]) -> str:
    """The variables as a pip.conf."""
    options = {name.removeprefix("PIP_").lower().replace("_", "-"): value for name, value in settings.items()}
    return "\n".join(["[global]", *(f"{name} = {value}" for name, value in options.items()), ""])

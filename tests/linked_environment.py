"""Virtual environments of links to packages that are installed here, for what must run where all others are absent."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = "permafrost-sweeps"


def linked_environment(folder: Path, packages: Iterable[str]) -> Path:
    """Make one with these packages and nothing else, not even pip; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    variables = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=variables))
    for name in packages:
        found = distribution(name)
        record = (found.read_text("RECORD") or "").splitlines()  # `found.files` makes an object of each of its lines
        entries = {re.split("[/,]", line, maxsplit=1)[0] for line in record} - {"..", "__pycache__"}
        for entry in entries:
            target = Path(str(found.locate_file(entry)))
            if target.exists() and not (site / entry).exists():
                (site / entry).symlink_to(target)
    return folder / "bin" / "python"


def with_requirements(packages: Iterable[str]) -> Collection[str]:
    """Installed packages and all that they require, of those that are installed here."""
    waiting, names = [Requirement(name) for name in packages], set[str]()
    while waiting:
        name = canonicalize_name(waiting.pop().name)
        if name not in names:
            try:
                wanted = map(Requirement, distribution(name).requires or ())
            except PackageNotFoundError:
                continue
            names.add(name)
            waiting += [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    return names

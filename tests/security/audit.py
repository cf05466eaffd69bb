"""Known holes of what constraints.txt pins: python -m tests.security.audit

Exits 1 where `pip-audit` knows of one, 0 where it knows of none. Where it is not installed, or no database of holes can
be reached, says so and exits 0: a network that is down is no reason for a red build, and no news is not good news.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
SERVICES = ("pypi", "osv")  # PyPI's own list, and Google's
LIMIT_S = 300

Run = Callable[[Sequence[str]], str]


class Audit(NamedTuple):
    """What was looked up.

    Attributes:
        audited: Packages that a database was asked about.
        holes: `package version: id, mended in ...` of each known hole.
    """

    audited: int
    holes: tuple[str, ...]


def audit(run: Run) -> Audit:
    """Ask one service after the other, until one answers about any package."""
    for service in SERVICES:
        words = ["-m", "pip_audit", "-r", str(CONSTRAINTS), "--no-deps", "--disable-pip", "-f", "json", "-s", service]
        found = _read(run([sys.executable, *words, "--progress-spinner", "off", "--timeout", "15"]))
        if found.audited:
            return found
    return Audit(0, ())


def _read(output: str) -> Audit:
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, LookupError, TypeError):  # it fell over, as it does without a connection
        return Audit(0, ())
    asked = [package for package in packages if "skip_reason" not in package]
    holes = [
        f"{p['name']} {p['version']}: {hole['id']}, mended in {', '.join(hole['fix_versions']) or 'no version yet'}"
        for p in asked
        for hole in p["vulns"]
    ]
    return Audit(len(asked), tuple(holes))


def _run(words: Sequence[str]) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S).stdout
    except subprocess.TimeoutExpired:
        return ""


def main(run: Run = _run) -> int:
    """Print what was found; the exit code."""
    if run is _run and importlib.util.find_spec("pip_audit") is None:
        return _told("not audited: pip-audit is not installed.", 0)
    found = audit(run)
    if not found.audited:
        return _told("not audited: no database of known holes could be reached.", 0)
    if found.holes:
        return _told("\n".join(["known holes:", *found.holes]), 1)
    return _told(f"{found.audited} packages audited, no known hole.", 0)


def _told(text: str, code: int) -> int:
    sys.stdout.write(f"{text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())

"""What a part of the GPU run finds, written as JSON after every figure, so that a cut loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Record:
    """The file of one part.

    Attributes:
        figures: What was measured.
        checks: Claims with what was measured, the limit, and whether the claim holds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.figures: dict[str, Any] = {}
        self.checks: list[dict[str, Any]] = []
        self._write()

    def note(self, **figures: Any) -> None:
        """Add figures."""
        self.figures |= figures
        self._write()

    def check(self, claim: str, measured: float | None, at_most: float, *, goal: bool = False) -> None:
        """Add a claim that a measured value is at most a limit; a missed goal is no failure."""
        holds = measured is not None and measured <= at_most  # NaN does not hold
        self.checks.append(
            {"claim": claim, "measured": measured, "at_most": at_most, "holds": holds, "is_goal": goal}
        )  # fmt: skip
        self._write()

    def _write(self) -> None:
        write_json(self._path, {"figures": self.figures, "checks": self.checks})


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file that is always complete."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file, empty if there is none."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content


def table(parts: dict[str, dict[str, Any]]) -> str:
    """The parts with their status, and every claim."""
    lines = []
    for name, part in parts.items():
        lines.append(f"{name:<14}{part['status']:<10}{part['seconds']:>6.0f} s  {part.get('reason') or ''}".rstrip())
        for check in part["checks"]:
            word = "holds" if check["holds"] else "missed" if check["is_goal"] else "BROKEN"
            measured = "not measured" if check["measured"] is None else f"{check['measured']:.4g}"
            lines.append(f"    {word:<8}{check['claim']}: {measured}, at most {check['at_most']:.4g}")
    return "\n".join(lines)

"""The audit of dependencies: red at a known hole, and never because a network is down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.examples import each
from tests.security.audit import CONSTRAINTS, main

MENDED: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
BROKEN = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "version": "1+cpu", "skip_reason": "not on PyPI"}


@each(
    "answers, code, text",
    [
        ([[MENDED, SKIPPED]], 0, "1 packages audited, no known hole."),
        ([[MENDED, BROKEN]], 1, "known holes:\nb 2: CVE-1, mended in 3"),
        ([[SKIPPED], [BROKEN]], 1, "known holes:\nb 2: CVE-1, mended in 3"),  # the second service knows it
        ([[SKIPPED], [SKIPPED]], 0, "not audited: no database of known holes could be reached."),
        ([None, None], 0, "not audited: no database of known holes could be reached."),
    ],
)
def test_only_a_known_hole_is_an_error(
    answers: list[list[dict[str, Any]] | None], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = iter(answers)

    def run(words: Sequence[str]) -> str:
        assert str(CONSTRAINTS) in words
        answer = next(waiting)
        return "" if answer is None else json.dumps({"dependencies": answer, "fixes": []})

    assert main(run) == code
    assert capsys.readouterr().out == f"{text}\n"

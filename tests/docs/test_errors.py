"""The index of errors finds what an error says, with its exit code and the module that says it."""

from __future__ import annotations

import pytest

from docs import errors


@pytest.mark.parametrize(
    ("words", "code", "module"),
    [
        ("is no setting of this model of … layers.", 2, "orchestrator.api.freezing"),
        ("no such figure. Known: …", 2, "dashboards.report.files"),
        ("its tokenizer has no padding token", 3, "trials.models.load"),
        ("has no sweep …; it has …", 5, "orchestrator.api.answering"),
    ],
)
def test_a_message_is_found_by_its_words(words: str, code: int, module: str) -> None:
    (found,) = [each for each in errors.messages() if words in each.text and each.module == module]
    assert found.code == code


def test_every_message_stands_under_a_heading() -> None:
    assert {message.code for message in errors.messages()} <= set(errors.TITLES)

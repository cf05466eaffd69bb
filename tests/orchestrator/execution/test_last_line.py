"""The one line of an error that tables and logs show says what happened."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from orchestrator.execution.events import failure, last_line
from trials.draft import FreezeDraft


def test_a_validation_error_ends_with_its_rule_not_with_an_address() -> None:
    with pytest.raises(ValidationError) as error:
        FreezeDraft(strategy="frist_k")
    text = failure(error.value)[1]
    assert text.splitlines()[-1].strip().startswith("For further information")
    assert last_line(text).startswith("Value error, unknown 'frist_k', did you mean 'first_k'?")
    assert last_line("one\ntwo") == "two"
    assert last_line(None) == "no reason given"

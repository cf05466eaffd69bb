"""What goes together, and the command that asks the same again."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.own_data.choose_options import ChooseOptions
from trials.errors import ConfigError


def test_the_command_names_every_model_and_what_rivals_freezing_changes_no_question() -> None:
    asked = ChooseOptions(data="my", models=["a/one", "two@abc"], model="two@abc")
    assert asked.question == "permafrost choose my --model a/one --model two@abc --tolerance 1"
    assert asked.suffix == "two"
    alone = ChooseOptions(data="my", against="lora")
    assert alone.question == ChooseOptions(data="my").question
    assert "--against lora --max-hours 2" in alone.command(max_hours=2)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"models": ["a/one", "b/one"]}, "give two or more, each with a name of its own"),
        ({"models": ["one", "two"], "rates": "auto"}, "--rates: goes with one --model"),
        ({"models": ["one", "two"], "against": "lora"}, "--against: goes with one --model"),
        ({"against": "adapters"}, "--against: unknown 'adapters'"),
        ({"scheme": "iob"}, "--scheme: unknown 'iob'"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        ChooseOptions(data="my", **options).check()

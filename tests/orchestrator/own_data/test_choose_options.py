"""The command that asks the same again, and words that are refused."""

from __future__ import annotations

import pytest

from orchestrator.own_data.choose_options import ChooseOptions
from trials.errors import ConfigError


def test_where_and_when_it_runs_is_in_the_command_and_changes_no_question() -> None:
    asked = ChooseOptions(data="my", model="two@abc", cpus=2, export="there")
    assert asked.question == "permafrost choose my --model two@abc --tolerance 1"
    assert asked.command(max_hours=2) == f"{asked.question} --max-hours 2 --store results --export there --cpus 2"


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ConfigError, match="--scheme: unknown 'iob'"):
        ChooseOptions(data="my", scheme="iob").check()

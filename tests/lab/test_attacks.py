"""Every attack of the past ends as expected; the seconds that visitors wait under load are for the program to say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab.attacks import ATTACKS, Attack


@pytest.mark.slow
@pytest.mark.parametrize("attack", [each for each in ATTACKS if each.expected != "^within"], ids=lambda each: each.name)
def test_an_attack_of_the_past_ends_as_expected(attack: Attack, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert re.search(attack.expected, attack.run(tmp_path / "a" / "b"), re.DOTALL)

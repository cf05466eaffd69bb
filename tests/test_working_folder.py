"""Tests neither read nor write the folder in which pytest was started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CHECKOUT


@pytest.fixture(scope="module")
def where_fixtures_work() -> Path:
    return Path.cwd()


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_starts_in_an_empty_folder_of_its_own(turn: int) -> None:
    assert list(Path.cwd().iterdir()) == []
    Path("left").write_text(f"by turn {turn}")


def test_a_fixture_of_a_module_works_outside_the_checkout(where_fixtures_work: Path) -> None:
    assert CHECKOUT not in (where_fixtures_work, *where_fixtures_work.parents)

"""The page on intervals says what the calibration found, and the calibration still finds it."""

from __future__ import annotations

import pytest

from tests.examples import each
from tests.lab.calibration import page
from tests.lab.calibration.__main__ import jobs


def test_the_tables_of_the_page_are_made_from_the_figures_that_were_kept_and_the_shipped_trials() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text()


def test_no_goal_was_missed_when_the_page_was_written() -> None:
    assert [str(figure) for figure in page.kept() if figure.missed] == []


@pytest.mark.slow  # simulations of minutes
@each("name", ["power", "normal, seeds 90 %", "skewness 1, seeds 90 %", "churn 10 %", "10 documents, compared"])
def test_the_figures_that_were_kept_are_those_of_this_code(name: str) -> None:
    kept = {(figure.world, figure.what): figure for figure in page.kept()}
    sweeps = kept["power, 1 setting", "recommended by 3 planned seeds, loses nothing"].n
    for figure in jobs(sweeps, seed=0)[name]():
        assert figure.share == pytest.approx(kept[figure.world, figure.what].share, abs=2 / figure.n), figure

"""The short form of the calibration: coverage, wrong verdicts and the bound on collapses, to three standard errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.calibration.__main__ import main
from tests.calibration.measure import LOOKS, bound_holds, measure, measure_family
from tests.calibration.worlds import COLLAPSE, WORLDS, Words, exponential

SWEEPS = 200
NAMES = [name for name, world in WORLDS.items() if not (isinstance(world, Words) and world.collapse)]


def three_errors(rate: float, sweeps: int = SWEEPS) -> float:
    return float(3 * np.sqrt(rate * (1 - rate) / sweeps))


@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_the_truth_and_verdicts_err_in_at_most_5_percent(name: str) -> None:
    measured = measure(WORLDS[name], SWEEPS, seed=1).two_way
    for rates in measured[:-1]:
        assert rates.covered >= (0.92 if rates.n == 3 else 0.93) - three_errors(0.07), rates
    assert measured[-1].wrong <= 0.05 + three_errors(0.05)


def test_seeds_alone_are_far_too_sure_where_sentences_vary() -> None:
    measured = measure(WORLDS["mostly sentences"], SWEEPS, seed=2)
    assert measured.over_seeds[2].covered < 0.6 < 0.9 < measured.two_way[2].covered


def test_a_sweep_whose_collapsed_runs_are_left_out_errs_in_at_most_5_percent() -> None:
    assert measure(WORLDS["10 % collapse"], SWEEPS, seed=3).two_way[-1].wrong <= 0.05 + three_errors(0.05)


def test_the_bound_on_collapses_holds_the_true_share() -> None:
    """Of 40 runs, as the bound of 10 is never below a tenth."""
    assert bound_holds(2000, seed=4, n_seeds=40) >= 0.95 - three_errors(0.05, 2000)
    assert COLLAPSE == 0.1


def test_four_settings_with_looks_err_in_at_most_5_percent_together() -> None:
    world = Words(0.006, 0.08, n_sentences=100, shape=exponential, settings=4)
    assert measure_family(world, 60, seed=5, looks=LOOKS).wrong <= 0.05 + three_errors(0.05, 60)


def test_the_command_prints_a_line_for_each_number_of_seeds_and_for_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sweeps", "20", "--world", "mixed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["3", "5", "10", "3"]

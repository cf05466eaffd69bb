"""The short form of the calibration: coverage, wrong verdicts and the bound on collapses, to three standard errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.analysis.answer import answers
from orchestrator.analysis.looks import tails
from orchestrator.analysis.two_way import DECIDING, ends, estimate
from orchestrator.store.evidence import evidence
from tests.examples import each
from tests.lab.calibration.__main__ import main
from tests.lab.calibration.answers import measure_answers, write
from tests.lab.calibration.measure import LOOKS, bound_holds, measure, measure_family
from tests.lab.calibration.worlds import COLLAPSE, WORLDS, Words, exponential

SWEEPS = 200
NAMES = [name for name, world in WORLDS.items() if not (isinstance(world, Words) and world.collapse)]


def three_errors(rate: float, sweeps: int = SWEEPS) -> float:
    return float(3 * np.sqrt(rate * (1 - rate) / sweeps))


@each("name", NAMES, quick=4)
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


def test_an_answer_from_a_store_has_the_interval_of_the_losses_that_went_in(tmp_path: Path) -> None:
    losses, collapsed = WORLDS["mixed"].draw(np.random.default_rng(6), 4, 5)
    store, specs = write(tmp_path, losses, collapsed)
    trials = evidence(store, specs)
    found = sorted(answers(trials.frame, trials.specs, saving="trainable_params"), key=lambda answer: answer.corpus)
    of = estimate(losses[:, 0])
    low, high = ends(of, tails(of, LOOKS, 0.025), DECIDING)
    rows = [answer.recommendation.candidates.iloc[0] for answer in found]
    assert [row["low_decides"] for row in rows] == pytest.approx(low, abs=1e-7)
    assert [row["high_decides"] for row in rows] == pytest.approx(high, abs=1e-7)


@pytest.mark.slow  # make calibration has the rates with one setting too
def test_answers_from_stores_err_in_at_most_5_percent_however_often_one_looks() -> None:
    rates = measure_answers(WORLDS["exponential, mostly seeds"], 20, 7, chains=4)
    assert all(each.wrong <= 0.05 + three_errors(0.05, 20) for each in rates)

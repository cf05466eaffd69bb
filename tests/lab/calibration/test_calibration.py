"""The short form of the calibration: coverage, wrong verdicts and the bound on collapses, to three standard errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.analysis.answer import answers
from orchestrator.analysis.decision_plan import FIRST_LOOK, DecisionPlan, PlannedLooks
from orchestrator.analysis.looks import deciding_ends, simultaneous
from orchestrator.analysis.two_way import estimate
from orchestrator.config.quantities import POINTS
from tests.examples import each
from tests.lab.calibration.__main__ import jobs, main
from tests.lab.calibration.measure import LOOKS, MOST, Figure, batches, figures, measure, unaware
from tests.lab.calibration.shapes import exponential
from tests.lab.calibration.stores import write
from tests.lab.calibration.worlds import FAMILIES, OTHERS, SINGLE, WORLDS, Crossed

SWEEPS = 200


@each("name", [*OTHERS, *SINGLE, *FAMILIES], quick=6)
def test_no_world_misses_its_goals(name: str) -> None:
    assert [str(figure) for figure in figures(name, WORLDS[name], SWEEPS, seed=1) if figure.missed] == []


@pytest.mark.slow  # tests/orchestrator/analysis/test_decided.py has the error of an answer
@each("name", ["collapses", "bad seeds", "unequal seeds"])
def test_no_decision_misses_its_goals(name: str) -> None:
    assert [str(figure) for figure in jobs(sweeps=400, seed=2)[name]() if figure.missed] == []


def test_seeds_alone_are_far_too_sure_where_sentences_vary() -> None:
    (alone,) = unaware("", WORLDS["mostly sentences"], SWEEPS, seed=2)
    assert alone.share < 0.6 < 0.9 < measure(WORLDS["mostly sentences"], SWEEPS, seed=2)[1].covered(MOST)


def test_sentences_of_ten_documents_are_far_too_sure_and_documents_are_not() -> None:
    name = "10 documents, alike 0.05"
    _, plain, _ = unaware(name, WORLDS[name], SWEEPS, seed=3)
    assert plain.share < 0.8 < 0.9 < measure(WORLDS[name], SWEEPS, seed=3)[1].covered(MOST)


def test_a_ratio_of_words_has_a_fifth_shorter_intervals_by_its_linear_form() -> None:
    *_, width = unaware("", WORLDS["words, loss 10 points"], SWEEPS, seed=4)
    assert width.share == pytest.approx(0.81, abs=0.03)


def test_exponential_losses_are_too_skewed_for_what_is_promised() -> None:
    of = measure(Crossed(0.98, exponential, settings=1), 2000, seed=5)[1]
    assert of.wrong(5)[0].mean() > 0.08


@each("planned", [3, 5, 8])
def test_many_sweeps_at_once_have_the_intervals_that_each_has_alone(planned: int) -> None:
    (drawn,) = batches(Crossed(0.8), 5, seed=6)
    low, high = measure(Crossed(0.8), 5, seed=6)[3].deciding[planned]
    for look, n in enumerate(LOOKS):
        alone = [simultaneous(list(each[:, :n]), PlannedLooks(FIRST_LOOK, planned)) for each in drawn.losses]
        assert low[look] == pytest.approx(np.array([each.low for each in alone]), nan_ok=True)
        assert high[look] == pytest.approx(np.array([each.high for each in alone]), nan_ok=True)


def test_the_command_fails_where_a_goal_is_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--sweeps", "20", "--only", "mixed", "--processes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mixed                                    covered, 3 seeds")
    assert lines[0].endswith("at least 92 %")
    assert lines[-1] == "0 goals missed"
    assert Figure("", "", share=0.10, goal=0.05, n=1000).missed
    assert not Figure("", "", share=0.07, goal=0.05, n=1000).missed


def test_an_answer_from_a_store_has_the_interval_of_the_losses_that_went_in(tmp_path: Path) -> None:
    losses = WORLDS["mixed"].draw(np.random.default_rng(6), 4, 5).losses
    store, specs = write(tmp_path, losses)
    trials = store.evidence(specs)
    plan = DecisionPlan(cost="trainable_params", min_saving=0.0)
    found = sorted(answers(trials.frame, trials.specs, plan), key=lambda answer: answer.corpus)
    low, high = deciding_ends(estimate(losses[:, 0]), plan.looks(5), plan.error)
    rows = [answer.decided_by.table.iloc[0] for answer in found]
    assert [row["low"] for row in rows] == pytest.approx(POINTS * low, abs=1e-5)
    assert [row["high"] for row in rows] == pytest.approx(POINTS * high, abs=1e-5)

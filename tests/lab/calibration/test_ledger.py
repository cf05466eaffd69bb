"""The ledger: the shipped trials are within what intervals presume, and losses that are not are told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.prospects import variances_of
from tests.lab.calibration.ledger import churn, deviations, ledger, ledger_of
from tests.lab.calibration.shapes import Draw, exponential, normal
from tests.lab.calibration.shipped import Question, shipped


def test_the_losses_of_the_shipped_trials_are_what_the_interval_presumes() -> None:
    assert [str(entry) for entry in ledger_of(shipped()) if entry.missed] == []


def test_losses_as_drawn_by_a_world_that_is_promised_for_are_told_so() -> None:
    assert [entry.name for entry in ledger(_drawn(normal)) if entry.missed] == []


def test_exponential_losses_leave_the_skewness_that_is_presumed() -> None:
    assert "skewness of a sample" in [entry.name for entry in ledger(_drawn(exponential)) if entry.missed]


def test_settings_of_very_different_variances_leave_the_presumed_degrees_of_freedom() -> None:
    missed = [entry.name for entry in ledger(_drawn(normal, (1, 3, 9))) if entry.missed]
    assert missed == ["prior degrees of freedom"]


def test_churn_counts_the_texts_of_which_one_run_is_right_and_the_other_wrong() -> None:
    table = churn([_question(base=[1, 1, 0, 0], own=[1, 0, 1, 0])])
    assert table["churn"].tolist() == [0.5]


def test_every_corpus_and_encoder_of_the_shipped_trials_has_its_churn() -> None:
    table = churn(shipped())
    assert len(table) == 11
    assert table["churn"].between(0.05, 0.3).all()


def _drawn(shape: Draw, deviations: tuple[float, ...] = (1, 1, 1)) -> list[pd.DataFrame]:
    rng = np.random.default_rng(0)
    return [pd.DataFrame(shape(rng, (5, 3)) * np.array(deviations)) for _ in range(40)]


def _question(base: list[int], own: list[int]) -> Question:
    trials = pd.DataFrame(
        {"cell": ["none", "all"], "freeze": ["none", "all"], "sentences": [*map(np.array, (base, own))]}
    )
    trials = trials.assign(baseline="none", group="", seed=0, metric="accuracy", collapsed=0.0, score=[0.5, 0.5])
    return Question.of(trials.assign(corpus="corpus", model="encoder", train_size=100), ["all"])


def test_the_deviations_that_plans_presume_are_those_of_the_shipped_trials() -> None:
    for task in ("pos", "ner", "sst2"):
        assert [*deviations(shipped(), task)] == pytest.approx([*variances_of(task)], rel=0.02), task

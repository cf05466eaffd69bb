"""The short form of the calibration: coverage and wrong verdicts to three standard errors, and what real trials are."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.analysis.decision_plan import FIRST_LOOK, PlannedLooks
from orchestrator.analysis.looks import joint_intervals
from orchestrator.analysis.prospects import variances_of
from tests.examples import each
from tests.lab.calibration.__main__ import jobs, main
from tests.lab.calibration.ledger import deviations, ledger_of
from tests.lab.calibration.measure import LOOKS, batches, figures, measure
from tests.lab.calibration.shipped import shipped
from tests.lab.calibration.worlds import FAMILIES, OTHERS, SINGLE, WORLDS, Crossed

SWEEPS = 200


@each("name", [*OTHERS, *SINGLE, *FAMILIES], quick=2)
def test_no_world_misses_its_goals(name: str) -> None:
    assert [str(figure) for figure in figures(name, WORLDS[name], SWEEPS, seed=1) if figure.missed] == []


@pytest.mark.slow  # tests/orchestrator/analysis/test_decided.py has the error of an answer
@each("name", ["collapses", "bad seeds", "unequal seeds"])
def test_no_decision_misses_its_goals(name: str) -> None:
    assert [str(figure) for figure in jobs(sweeps=400, seed=2)[name]() if figure.missed] == []


@each("planned", [5, 3, 8], quick=1)
def test_many_sweeps_at_once_have_the_intervals_that_each_has_alone(planned: int) -> None:
    (drawn,) = batches(Crossed(0.8), 5, seed=6)
    low, high = measure(Crossed(0.8), 5, seed=6)[3].deciding[planned]
    for look, n in enumerate(LOOKS):
        alone = [joint_intervals(list(each[:, :n]), PlannedLooks(FIRST_LOOK, planned)) for each in drawn.losses]
        assert low[look] == pytest.approx(np.array([each.low for each in alone]), nan_ok=True)
        assert high[look] == pytest.approx(np.array([each.high for each in alone]), nan_ok=True)


def test_the_losses_of_the_shipped_trials_are_what_the_interval_presumes() -> None:
    assert [str(entry) for entry in ledger_of(shipped()) if entry.missed] == []


@each("task", ["pos", "ner", "sst2"])
def test_the_deviations_that_plans_presume_are_those_of_the_shipped_trials(task: str) -> None:
    assert [*deviations(shipped(), task)] == pytest.approx([*variances_of(task)], rel=0.02)


def test_the_command_tells_each_figure_beside_its_goal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sweeps", "20", "--only", "mixed", "--processes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0].split()[0], lines[0].endswith("at least 92 %"), lines[-1]) == ("mixed", True, "0 goals missed")

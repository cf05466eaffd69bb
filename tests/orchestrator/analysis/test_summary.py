"""What a sweep found, a cell at a time, on hand-made rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from orchestrator.analysis.summary import CellSummary, summarise
from orchestrator.execution.trial_rows import trial_row
from orchestrator.store.schema import TRIALS
from tests.builders import make_record, make_spec
from trials.record import State
from trials.spec import TrialSpec

BASE = [make_spec(seed=seed) for seed in (0, 1, 2)]
FROZEN = [make_spec(seed=seed, freeze={"strategy": "first_k", "layers": (0, 1)}) for seed in (0, 1, 2)]


def ended(spec: TrialSpec, state: State = State.COMPLETED, **changes: Any) -> dict[str, Any]:
    return trial_row(spec, 1, [make_record(**({"prefix_s": 0.0} | changes))], state, None)


def cells(specs: list[TrialSpec], *rows: dict[str, Any]) -> list[CellSummary]:
    return summarise(specs, pa.Table.from_pylist(list(rows), schema=TRIALS).to_pylist())


def test_a_cell_has_the_mean_and_the_deviation_over_its_seeds() -> None:
    (cell,) = cells(BASE, *(ended(spec, score=score) for spec, score in zip(BASE, (0.5, 0.75, 1.0), strict=True)))
    assert (cell.n, cell.planned, cell.score_mean, cell.score_std) == (3, 3, 0.75, 0.25)
    (cell,) = cells(BASE, ended(BASE[1], score=0.5, test_score=None))
    assert (cell.n, cell.planned, cell.score_mean, cell.score_std, cell.test_mean) == (1, 3, 0.5, None, None)
    (cell,) = cells([BASE[0]], ended(BASE[0], score=0.5), ended(BASE[1], score=1.0))  # of another sweep
    assert (cell.planned, cell.score_mean) == (1, 0.5)
    (cell,) = cells(BASE, trial_row(BASE[0], 1, [], State.FAILED, "broken"))
    assert (cell.n, cell.score_mean, cell.saved_params, cell.states["failed"]) == (0, None, None, 1)


def test_only_completed_trials_enter_a_mean() -> None:
    (cell,) = cells(BASE, ended(BASE[0], score=0.5), ended(BASE[1], State.PRUNED, score=1.0, train_s=99.0))
    assert (cell.score_mean, cell.training_cost_s, cell.n) == (0.5, 2.0, 1)
    assert cell.states == {"completed": 1, "pruned": 1}


def test_what_freezing_saves_is_a_share_of_the_baselines_time() -> None:
    found = cells(
        [BASE[0], FROZEN[0]], ended(BASE[0], train_s=4.0, trainable_params=1000), ended(FROZEN[0], train_s=1.0)
    )
    assert [cell.saved_time for cell in found] == [0.0, 0.75]
    assert found[1].saved_params == pytest.approx(0.75)

"""Each setting at its own best rate: chosen on seeds that the answer does not use, against the baseline at its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from orchestrator.analysis.trial_frame import best_rate_trials, trial_frame, with_own_rates
from tests.builders import first_k, make_spec
from tests.orchestrator.analysis.frames import row_of
from trials.spec import TrialSpec

BEST = {0: 1e-4, 2: 1e-3}  # rate by depth
RATES, SEEDS = (1e-4, 1e-3), range(6)


def spec_of(depth: int, lr: float, seed: int) -> TrialSpec:
    return make_spec(freeze=first_k(depth), optim={"lr": lr}, seed=seed)


def frame_of(rates: tuple[float, ...] = RATES) -> tuple[pd.DataFrame, dict[str, TrialSpec]]:
    """On the first two seeds the best rates are as above; on the others the freeze would do better at the other one."""
    specs = [spec_of(depth, lr, seed) for depth in BEST for lr in rates for seed in SEEDS]
    is_best = [spec.optim.lr == BEST[spec.freeze.depth] for spec in specs]
    scores = [0.9 if best == (spec.seed < 2) else 0.8 for best, spec in zip(is_best, specs, strict=True)]
    return trial_frame(specs, list(map(row_of, specs, scores))), {spec.cell_id: spec for spec in specs}


def test_rates_are_chosen_on_the_first_seeds_and_the_rest_answers() -> None:
    frame, specs = frame_of()
    found = best_rate_trials(frame, specs)
    assert set(found["seed"]) == {2, 3, 4, 5}
    assert {specs[cell].freeze.depth: specs[cell].optim.lr for cell in found["cell"].unique()} == BEST
    assert set(found["baseline"]) == {spec_of(0, 1e-4, 0).cell_id}
    assert np.allclose(found["score"], 0.8)
    assert set(found["setup"]) == {
        "each at its best lr (none 0.0001, first 2+E 0.001), chosen on seeds 0, 1, which the answer does not use"
    }


def test_without_several_rates_or_with_all_seeds_spent_on_them_there_is_no_answer() -> None:
    with pytest.raises(ValueError, match=r"every setting has one learning rate; give `optim\.lr` several"):
        best_rate_trials(*frame_of((1e-4,)))
    with pytest.raises(ValueError, match="6 seeds: 6 to choose the rates leave none to answer with"):
        best_rate_trials(*frame_of(), n_seeds=6)


def test_settings_with_a_rate_each_are_paired_with_the_one_baseline_and_a_grid_keeps_a_baseline_for_each() -> None:
    specs = [spec_of(depth, lr, seed) for depth, lr in ((0, 1e-4), (1, 1e-4), (2, 1e-3)) for seed in SEEDS]
    frame = trial_frame(specs, [])
    assert set(frame["baseline"]) == {spec_of(0, 1e-4, 0).cell_id}
    assert set(frame["setup"]) == {"each at its own lr (none 0.0001, first 1+E 0.0001, first 2+E 0.001)"}
    grid, of_grid = frame_of()
    assert with_own_rates(grid, of_grid) is grid
    assert grid["baseline"].nunique() == 2

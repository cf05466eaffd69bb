"""What is forecast of a dev split or of folds has the variances of losses that are drawn so."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.analysis.prospects import FREEZEBENCH, expected_estimate
from orchestrator.analysis.two_way import Folds, estimates
from tests.examples import each


@each("seeds", [3, 5, 8, 10])
@each("folds", [0, 5])
def test_the_variances_that_are_expected_are_those_that_losses_drawn_with_them_have(folds: int, seeds: int) -> None:
    """Of 300 texts that vary as FreezeBench's did; of folds each seed is scored on one."""
    rng, of, drawn = np.random.default_rng(1), FREEZEBENCH["classes"], []
    shared = np.sqrt(0 if folds == 0 else of.seeds**2 / (folds - 1))  # by seeds whose train sets overlap
    for _ in range(400):
        losses = of.examples * rng.standard_normal(300) + of.both * rng.standard_normal((seeds, 300))
        losses += of.seeds * rng.standard_normal((seeds, 1)) + shared * rng.standard_normal()
        if folds:
            losses[np.arange(seeds)[:, None] % folds != np.arange(300) % folds] = np.nan
        drawn.append(losses)
    if 0 < seeds < folds:
        drawn = [losses[:, ~np.isnan(losses).all(axis=0)] for losses in drawn]
    found, said = estimates(drawn, Folds(folds, 300) if folds else None), expected_estimate(of, 300, seeds, folds)
    assert found.mean.var() == pytest.approx(float(said.variance), rel=0.2)
    assert found.both.mean() == pytest.approx(float(said.both), rel=0.1)

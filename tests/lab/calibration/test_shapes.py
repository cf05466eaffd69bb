"""The distributions that worlds draw from are what their names say, whatever settings have in common."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.examples import each
from tests.lab.calibration.shapes import exponential, heteroscedastic, normal, skewed, t5

SHAPES = {
    "normal": (normal, 0),
    "t5": (t5, 0),
    "heteroscedastic": (heteroscedastic, 0),
    "gamma": (skewed, 1),
    "exponential": (exponential, 2),
}


@each("name, alike", [(name, alike) for alike in (0.5, 0.0, 1.0) for name in SHAPES], quick=len(SHAPES))
def test_losses_have_mean_0_deviation_1_their_skewness_and_the_correlation_asked_for(name: str, alike: float) -> None:
    draw, skewness = SHAPES[name]
    losses = draw(np.random.default_rng(0), (2, 400_000), alike)
    assert losses.mean(axis=1) == pytest.approx([0, 0], abs=0.01)
    assert losses.std(axis=1) == pytest.approx([1, 1], abs=0.02)
    assert np.corrcoef(losses)[0, 1] == pytest.approx(alike, abs=0.02)
    if name != "t5":  # whose sample skewness is hardly an estimate
        assert stats.skew(losses, axis=1) == pytest.approx([skewness, skewness], abs=0.1)

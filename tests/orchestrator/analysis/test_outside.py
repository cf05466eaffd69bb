"""Our numbers against those of other programs, of published tables, and of methods that share no code with ours."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special

from orchestrator.analysis.looks import stopping_tails
from orchestrator.analysis.two_way import estimate
from tests.orchestrator.analysis.frames import Floats
from tests.orchestrator.analysis.test_two_way import losses

THIRDS, FIFTHS = np.arange(1, 4) / 3, np.arange(1, 6) / 5


def long_form(x: Floats) -> pd.DataFrame:
    """A row for each seed and sentence."""
    seed, item = np.indices(x.shape)
    return pd.DataFrame({"x": x.ravel(), "seed": seed.ravel(), "item": item.ravel(), "all": 0})


def test_the_variance_is_that_of_a_crossed_mixed_model() -> None:
    """Seeds and sentences as crossed random effects, by restricted maximum likelihood."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    x = losses(np.random.default_rng(1), 12, 25, seeds=1.0, sentences=2.0)
    parts = {"seed": "0 + C(seed)", "item": "0 + C(item)"}
    fit = MixedLM.from_formula("x ~ 1", long_form(x), groups="all", re_formula="0", vc_formula=parts).fit()
    assert float(np.sqrt(estimate(x).variance)) == pytest.approx(float(fit.bse.iloc[0]), rel=0.001)


def test_the_variance_is_that_of_a_pigeonhole_bootstrap() -> None:
    """Seeds and sentences are drawn again, independently: A. Owen, "The Pigeonhole Bootstrap", Annals of Applied
    Statistics 1 (2007), 386-411. It has n for n - 1, and counts the noise of single cells three times.
    """
    rng, (n_s, n_i) = np.random.default_rng(2), (20, 60)
    x = losses(rng, n_s, n_i, seeds=0.5, sentences=2.0)
    seeds, items = (rng.multinomial(n, np.full(n, 1 / n), 20_000) / n for n in (n_s, n_i))
    drawn = np.einsum("bs,si,bi->b", seeds, x, items)
    of = estimate(x)
    assert drawn.std() == pytest.approx(float(np.sqrt(of.variance)), rel=0.05)
    assert drawn.mean() == pytest.approx(float(of.mean), abs=4 * drawn.std() / np.sqrt(len(drawn)))


@pytest.mark.parametrize(
    ("time", "spent", "published"),
    [
        # gsDesign, documentation of sfPower: k = 4, Kim and DeMets' spending with exponent 3, one-sided 2.5 %.
        (np.arange(1, 5) / 4, 0.025 * (np.arange(1, 5) / 4) ** 3, [3.36, 2.76, 2.36, 2.03]),
        # rpact, its own unit tests of getDesignInverseNormal: O'Brien and Fleming, 2.5 %; Kim and DeMets 2.2, 3 %.
        (THIRDS, np.array([0.00025917372, 0.0071600594, 0.025]), [3.4710914, 2.4544323, 2.0040356]),
        (np.array([0.3, 0.7, 1]), np.array([0.0021222083, 0.013687904, 0.03]), [2.8594012, 2.2435708, 1.9735737]),
    ],
)
def test_critical_values_of_looks_are_the_published_ones(time: Floats, spent: Floats, published: list[float]) -> None:
    decimals = len(str(published[0]).partition(".")[2])
    critical = -special.ndtri(stopping_tails(time, spent))
    assert critical == pytest.approx(published, abs=max(0.6 * 10.0**-decimals, 1e-6))


@pytest.mark.parametrize(
    ("shape", "constant"),
    # C. Jennison and B. Turnbull, "Group Sequential Methods" (2000), tables 2.1 and 2.3: five looks, two-sided 5 %.
    [(0.5, 2.413), (0.0, 2.040)],
    ids=["Pocock", "O'Brien and Fleming"],
)
def test_published_boundaries_spend_their_error_by_our_recursion(shape: float, constant: float) -> None:
    """The chances that they spend by simulated Brownian motion, put in, give the published constants back."""
    rng = np.random.default_rng(3)
    published = constant * FIFTHS ** (shape - 0.5)
    paths = rng.standard_normal((400_000, 5)).cumsum(axis=1) / np.sqrt(np.arange(1, 6))
    spent = np.maximum.accumulate(paths > published, axis=1).mean(axis=0)
    assert spent[-1] == pytest.approx(0.025, abs=0.0008)
    assert -special.ndtri(stopping_tails(FIFTHS, spent))[2:] == pytest.approx(published[2:], abs=0.03)

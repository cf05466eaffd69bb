"""What a dev split and so many seeds can decide, against simulated sweeps."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.analysis.decision_plan import PlannedLooks
from orchestrator.analysis.looks import simultaneous
from orchestrator.analysis.prospects import FREEZEBENCH, decides_within, needed, variances_of
from tests.examples import each


def test_four_of_five_sweeps_decide_within_the_tolerance_that_is_told() -> None:
    """Three settings that lose nothing, and share half of what varies."""
    rng, (n, size) = np.random.default_rng(0), (5, 400)
    of = FREEZEBENCH["classes"]
    within, shown = decides_within(of, size, n), []
    for _ in range(200):
        shared, own = (rng.standard_normal((k, n, 1)) for k in (1, 3))
        items = [rng.standard_normal((k, 1, size)) for k in (1, 3)]
        x = (
            of.seeds * (shared + own)
            + of.examples * sum(items)
            + of.both * np.sqrt(2) * rng.standard_normal((3, n, size))
        )
        high = simultaneous(list(x / np.sqrt(2)), PlannedLooks(3, n)).high
        shown.append(high[0] <= within)
    assert 0.7 <= np.mean(shown) <= 0.95


def test_more_seeds_and_more_examples_decide_less_and_what_is_needed_decides() -> None:
    of = variances_of("sst2")
    assert decides_within(of, 500, 5) > decides_within(of, 500, 15) > decides_within(of, 2000, 15) > 0
    assert decides_within(of, 1, 5) == decides_within(of, 500, 1) == np.inf
    for tolerance in (1.0, 2.0, 3.0):
        need = needed(of, tolerance, 500, 5)
        assert need is not None
        assert decides_within(of, *need) <= tolerance
    assert needed(of, 10.0, 500, 5) == (500, 5)
    assert needed(FREEZEBENCH["spans"], 0.1, 500, 5) is None


@each("task, like", [("sst2", "classes"), ("cola", "classes"), ("ner", "spans"), ("pos", "tags")])
def test_a_task_without_figures_of_its_own_has_those_of_one_like_it(task: str, like: str) -> None:
    assert variances_of(task) == pytest.approx(FREEZEBENCH[like])

"""How often a race drops the best of nearly equal settings; 400 races are in the docstring of `race`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.search.race import Race
from orchestrator.search.simulate import RecordedTrials, simulate
from orchestrator.sweeps.search_spec import RacingSpec
from tests.builders import make_record, make_spec
from tests.examples import first
from tests.lab.benchmarks.choose_depth import Floats, Shape, lognormal, normal
from tests.orchestrator.search.worlds import nothing_known
from trials.record import EpochRecord, SplitReport

N_CELLS, N_SEEDS, RACES = 12, 5, 60
CELLS = [[make_spec(optim={"lr": 1e-4 * (i + 1)}, seed=seed) for seed in range(N_SEEDS)] for i in range(N_CELLS)]


def drawn(rng: np.random.Generator, shape: Shape, n_sentences: int) -> Floats:
    """(cells, seeds, sentences) scores whose first cell is best by a hair."""
    luck = np.sqrt(0.5) * (rng.standard_normal((1, N_SEEDS)) + rng.standard_normal((N_CELLS, N_SEEDS)))
    scores: Floats = (0.8 - 0.01 * shape(luck))[..., None]
    scores[0] += 1e-6
    if n_sentences > 1:
        scores = scores + 0.02 * np.sqrt(n_sentences) * rng.standard_normal((N_CELLS, 1, n_sentences))
    return scores


def trial_of(values: Floats) -> list[EpochRecord]:
    reports = (SplitReport("dev", (), tuple(values.tolist())),) if len(values) > 1 else ()
    return [make_record(score=float(values.mean()), reports=reports)]


def table_of(scores: Floats) -> RecordedTrials:
    return {spec.trial_id: trial_of(scores[i, seed]) for i, cell in enumerate(CELLS) for seed, spec in enumerate(cell)}


def share_dropped(folder: Path, shape: Shape, n_sentences: int, *, seeds_alone: bool = False) -> float:
    """How often the best setting leaves."""
    rng, dropped = np.random.default_rng(7), 0
    for _ in range(RACES):
        race, scores = Race(CELLS, RacingSpec(), nothing_known(folder)), drawn(rng, shape, n_sentences)
        simulate(race, table_of(scores.mean(axis=2, keepdims=True) if seeds_alone else scores))
        dropped += CELLS[0][0].cell_id in race.left
    return dropped / RACES


@pytest.mark.parametrize("n_sentences", first(1, [100, 1]))
@pytest.mark.parametrize("shape", [normal, lognormal(0.5)])
def test_the_best_setting_is_dropped_as_rarely_as_the_confidence_says(
    tmp_path: Path, shape: Shape, n_sentences: int
) -> None:
    assert share_dropped(tmp_path, shape, n_sentences) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / RACES)


def test_over_seeds_alone_sentences_would_drop_the_best_setting_often(tmp_path: Path) -> None:
    assert share_dropped(tmp_path, normal, 100, seeds_alone=True) > 0.2


def test_a_setting_that_is_clearly_worse_leaves(tmp_path: Path) -> None:
    scores = drawn(np.random.default_rng(0), normal, 100)
    scores[1] -= 0.3
    race = Race(CELLS, RacingSpec(), nothing_known(tmp_path))
    simulate(race, table_of(scores))
    assert CELLS[1][0].cell_id in race.left

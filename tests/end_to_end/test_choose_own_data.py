"""`choose` on corpora of a few hundred examples: the baseline, a curve, then a decision or what it takes.

Nothing is decided by so few, so a question takes all of its time: no more than a curve needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.search.choose_depth import spread
from orchestrator.search.depth_search import Depths
from orchestrator.store import open_store
from tests.own_corpora import KINDS
from trials.record import State
from trials.spec import TrialSpec

pytestmark = pytest.mark.slow
MIN_SEEDS = 3
HOURS = "0.025"


def asked(store: str) -> tuple[TrialSpec, ...]:
    """The trials of the question, with what its baseline took to learn."""
    return next(plan for plan in open_store(store).sweeps() if plan.name.startswith("choose-")).specs


def in_order_of_ending(store: str) -> Iterator[tuple[str, int]]:
    """The freeze and the seed of each completed trial."""
    rows = open_store(store).trials(["trial_id", "state", "time"]).sort_by("time").to_pylist()
    specs = {spec.trial_id: spec for spec in asked(store)}
    ended = (specs[row["trial_id"]] for row in rows if row["state"] == State.COMPLETED and row["trial_id"] in specs)
    yield from ((spec.freeze.label, spec.seed) for spec in ended)


@pytest.mark.parametrize("kind", KINDS)
def test_the_baseline_comes_first_then_a_curve_then_a_decision_or_what_it_takes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = KINDS[kind](tmp_path / kind)
    words = ["choose", data.name, "--max-hours", HOURS, "--cluster", "inline", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    labels = [next(iter(seeds.values())).freeze.label for seeds in Depths.from_trials(asked("results")).freezes]
    curve, ended = {labels[i] for i in spread(len(labels))}, list(in_order_of_ending("results"))
    assert ended[:MIN_SEEDS] == [("none", seed) for seed in range(MIN_SEEDS)][: len(ended)]
    first = ended[MIN_SEEDS : MIN_SEEDS * (1 + len(curve))]  # as many as the machine had time for
    seed_by_seed = [[label for label, _ in each] for _, each in groupby(first, key=lambda trial: trial[1])]
    assert all(sorted(each) == sorted(curve) for each in seed_by_seed[:-1]), (
        "a curve of all depths comes before all else"
    )
    assert all(set(each) <= curve and len(set(each)) == len(each) for each in seed_by_seed[-1:])
    assert [answer["decided"] for answer in found["answers"]] == [True] or found["next"], done.output
    # Going on is offered where the time was up, not where the search wants no more trials of its plan.
    goes_on = [step for step in found["next"] if step["brings"].startswith("goes on")]
    assert not goes_on or "--max-hours 0.025 reached" in done.output

"""`goal: choose_depth` on made-up trials: what it concludes, and that a store tells it as much as a run does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.search.depth_search import Depths, DepthSearch
from orchestrator.search.trial_results import StoredTrials
from orchestrator.store import ResultStore
from orchestrator.sweeps.search_spec import DepthGoalSpec, GoalSpec
from tests.builders import first_k, make_record, make_spec
from tests.examples import first
from tests.orchestrator.search.replay import RecordedTrials, simulate
from tests.orchestrator.search.worlds import nothing_known
from trials.record import EpochRecord, SplitReport, State
from trials.spec import TrialSpec

SEEDS = range(6)
LOSSES = (0.0, 0.001, 0.03)  # of freezing none, one layer, two layers
CONSTANT = 0.2


def spec_of(depth: int, seed: int) -> TrialSpec:
    return make_spec(freeze=first_k(depth), seed=seed)


def depths_of(depths: Sequence[int]) -> Depths:
    return Depths.from_trials([spec_of(depth, seed) for depth in depths for seed in SEEDS])


DEPTHS = depths_of(range(len(LOSSES)))


def record_of(depth: int, seed: int, *, collapsed: bool = False, documents: bool = False) -> EpochRecord:
    """A trial whose score is about 0.9 less its depth's loss; of 300 dev and 200 test sentences."""
    rng = np.random.default_rng([depth, seed])
    score = CONSTANT if collapsed else 0.9 - LOSSES[depth] + 0.001 * rng.standard_normal()
    values = {split: score + 0.05 * rng.standard_normal(n) for split, n in (("dev", 300), ("test", 200))}
    values = {split: each + (score - each.mean()) for split, each in values.items()}
    reports = [SplitReport(split, (), tuple(each), CONSTANT) for split, each in values.items()]
    if documents:  # of 10 and of 20 sentences
        of = np.repeat(np.arange(20), [10, 20] * 10)
        reports = [replace(each, documents=tuple(of[: len(each.contributions)].tolist())) for each in reports]
    flops = 1e12 * (1 - 0.2 * depth)
    return make_record(
        training_flops=flops, score=score, test_score=score, reports=tuple(reports), step_losses=(2.0, 1.0)
    )


def trials(**changes: bool) -> RecordedTrials:
    pairs = [(depth, seed) for depth in range(len(LOSSES)) for seed in SEEDS]
    return {spec_of(*pair).trial_id: [record_of(*pair, **changes)] for pair in pairs}


def goal(**asked: Any) -> GoalSpec:
    return GoalSpec(choose_depth=DepthGoalSpec(**asked))


def searched(
    folder: Path, table: RecordedTrials, tolerance: float = 1.0, depths: Sequence[int] = range(len(LOSSES))
) -> DepthSearch:
    source = DepthSearch(goal(tolerance=tolerance), depths_of(depths), nothing_known(folder))
    simulate(source, table)
    assert source.is_over
    return source


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> DepthSearch:
    """A search that has ended, within 1 point."""
    return searched(tmp_path_factory.mktemp("usual"), trials())


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> DepthSearch:
    """One within 0.4 points, which ends undecided."""
    return searched(tmp_path_factory.mktemp("narrow"), trials(), tolerance=0.4)


def test_the_chances_of_its_trials_end_with_the_search_and_a_budget_bounds_their_sum(
    tmp_path: Path, usual: DepthSearch
) -> None:
    """The first looks are certain to be run; of later seeds less is expected."""
    source = DepthSearch(goal(tolerance=1.0, trials=4), DEPTHS, nothing_known(tmp_path))
    chances = source.chances()
    likely = {(spec.freeze.depth, spec.seed): chance for spec, chance in chances.of_trials}
    assert likely[0, 0] == likely[1, 0] == likely[2, 0] > likely[1, 5]
    assert sum(likely.values()) == pytest.approx(4) == chances.at_most
    assert {chance for _, chance in usual.chances().of_trials} == {0.0}


def test_with_time_given_it_goes_on_until_nothing_is_open(tmp_path: Path, narrow: DepthSearch) -> None:
    """Times of trials are measured as they end; two depths that are decided need no further seed."""
    source = DepthSearch(goal(tolerance=0.4), DEPTHS, nothing_known(tmp_path), time_left=lambda: 3600.0)
    spent = simulate(source, trials())
    assert spent.trials > len(narrow._used)
    assert source.answer_lines()[0] == "chosen  Not decided"


@pytest.mark.parametrize(("hours", "most"), [(1.0, 3), (None, 7)])
def test_a_tolerance_that_gives_up_all_that_was_learned_ends_it_with_the_first_look_of_its_baseline(
    hours: float | None, most: int, tmp_path: Path
) -> None:
    """The baseline scores 70 points above a constant prediction, of which the tolerance leaves nothing."""
    time_left = None if hours is None else lambda: 3600 * hours
    source = DepthSearch(goal(tolerance=75.0), DEPTHS, nothing_known(tmp_path), time_left)
    assert simulate(source, trials()).trials <= most
    head, why, *rest = source.answer_lines(200)
    assert head == "chosen  Not decided"
    assert why.strip().startswith("A tolerance of 75 points gives up all that was learned, as the baseline scores 70.")
    assert "The search ended" not in "".join(rest)
    assert {chance for _, chance in source.chances().of_trials} == {0.0}


def test_it_ends_with_the_answer_and_its_curve_and_what_the_choice_loses_on_test(usual: DepthSearch) -> None:
    lines = usual.answer_lines(200)
    assert lines[0] == "chosen  ■ ■□□□□□  Freeze the first 1 of 6 layers and the embeddings, within 1 point"
    assert re.fullmatch(
        r" {8}It loses \S+ points \(\S+ to \S+\) and saves 20 % of .*; \d+ seeds, 300 dev sentences\.", lines[1]
    )
    assert lines[2].startswith("        On test, which took no part in the choice, it loses 0.")
    assert lines[2].endswith(" seeds, 200 test sentences.")
    assert any(line.startswith("          within ") for line in lines)
    assert max(map(len, usual.answer_lines(80)[1:])) <= 80


def test_sentences_of_documents_are_judged_by_them(tmp_path: Path, usual: DepthSearch) -> None:
    source = searched(tmp_path, trials(documents=True), depths=(0, 1))
    row = source.decision().table.iloc[0]
    assert (row["n_sentences"], row["n_documents"]) == (300, 20)
    assert row["high"] != pytest.approx(usual.decision().table.iloc[0]["high"])
    assert "300 dev sentences of 20 documents" in source.answer_lines(200)[1]


def test_a_run_that_collapsed_is_left_out_and_reported(tmp_path: Path) -> None:
    table = {**trials(), spec_of(1, 1).trial_id: [record_of(1, 1, collapsed=True)]}
    source = searched(tmp_path, table, depths=(0, 1))
    row = source.decision().table.iloc[0]
    assert row["collapsed"] == 1
    assert row["loss"] < 1 < row["loss_all"]
    assert row["barred"] == "its mean over all runs is not within the tolerance"
    assert source.decision().choice is None
    assert "runs collapsed" in source.answer_lines(200)[1]


@pytest.mark.parametrize("n_stored", first(1, [3, 18]))
def test_a_search_that_finds_trials_in_the_store_gives_the_same_answer_and_a_finished_one_runs_none(
    tmp_path: Path, n_stored: int, usual: DepthSearch
) -> None:
    table, store = trials(), ResultStore(tmp_path / "stored")
    every = [spec for cell in (DEPTHS.baseline, *DEPTHS.freezes) for spec in cell.values()]
    recorder = Recorder(store)
    for spec in every[:n_stored]:
        recorder.started(spec, 1)
        recorder.evaluated(spec, table[spec.trial_id][0])
        recorder.ended(End(spec, State.COMPLETED))
    recorder.close()
    resumed = DepthSearch(goal(tolerance=1.0), DEPTHS, StoredTrials(store))
    spent = simulate(resumed, table)
    assert resumed.answer_lines() == usual.answer_lines()
    assert (spent.trials == 0) == (n_stored == 18)
    for name in store.storage.subfolder("contributions").files():
        store.storage.subfolder("contributions").write(name, b"harmed")
    harmed = DepthSearch(goal(tolerance=1.0), DEPTHS, StoredTrials(store))
    assert simulate(harmed, table).trials == len(usual._used)
    assert harmed.answer_lines() == usual.answer_lines()

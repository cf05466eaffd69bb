"""One decider: the end of a search, `answer`, the page, the report and the API say one thing of one store."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from dashboards.cli import app
from dashboards.data.frames import Frames
from dashboards.data.selection import PageQuery
from dashboards.report.files import write_report
from dashboards.report.sections import answer_lines
from dashboards.views.kit.cards import answers_of_page
from orchestrator.analysis.answer_text import lines_of
from orchestrator.api import answer, open_store
from orchestrator.execution.recorder import Recorder
from orchestrator.execution.trial_queue import End
from orchestrator.search.depth_search import Depths, DepthSearch
from orchestrator.store import ResultStore
from orchestrator.store.plans import SweepPlan
from orchestrator.sweeps.search_spec import DepthGoalSpec, GoalSpec
from tests.builders import first_k, make_record, make_spec
from tests.dashboards.views.made import selected
from tests.examples import each
from tests.orchestrator.search.replay import RecordedTrials, simulate
from tests.orchestrator.search.worlds import nothing_known
from trials.record import EpochRecord, SplitReport, State
from trials.spec import TrialSpec

SEEDS = range(6)
LOSSES = (0.0, 0.001, 0.004, 0.03)  # of freezing none, one, two, four layers
LAYERS = (0, 1, 2, 4)
CONSTANT = 0.5
FOLDS = {"folds": 5, "sizes": (200, 60, 0)}
Score = Callable[[np.random.Generator, int, int], float]


def normal(rng: np.random.Generator, depth: int, seed: int) -> float:
    return 0.9 - LOSSES[depth] + 0.001 * float(rng.standard_normal())


def skewed(rng: np.random.Generator, depth: int, seed: int) -> float:
    return 0.9 - LOSSES[depth] - 0.003 * float(rng.exponential())


def collapsing(rng: np.random.Generator, depth: int, seed: int) -> float:
    return CONSTANT if depth == 2 and seed in (1, 2) else normal(rng, depth, seed)


def at_chance(rng: np.random.Generator, depth: int, seed: int) -> float:
    return CONSTANT + 0.002 * float(rng.standard_normal())


CASES: dict[str, dict[str, Any]] = {
    "normal": {"score": normal},
    "skewed": {"score": skewed},
    "a freeze collapses": {"score": collapsing},
    "a baseline at chance": {"score": at_chance},
    "documents": {"score": normal, "documents": True},
    "folds": {"score": normal, "data": FOLDS},
    "whole seeds of folds": {"score": normal, "data": FOLDS, "sentences": False},
}


def record_of(depth: int, seed: int, score: Score, *, documents: bool, sentences: bool) -> EpochRecord:
    rng = np.random.default_rng([depth, seed])
    mean = score(rng, depth, seed)
    values = mean + 0.05 * rng.standard_normal(300)
    codes = tuple(np.repeat(np.arange(20), 15).tolist()) if documents else ()
    contributions = tuple(values + mean - values.mean()) if sentences else ()
    report = SplitReport("dev", (), contributions, CONSTANT, documents=codes)
    flops = 1e12 * (1 - 0.2 * depth)
    return make_record(training_flops=flops, score=mean, reports=(report,), step_losses=(2.0, 1.0))


def ended_in(folder: Path, goal: GoalSpec, specs: list[TrialSpec], table: RecordedTrials) -> tuple[DepthSearch, str]:
    """A search over these trials, and the address of the store that its launch leaves."""
    source, store = DepthSearch(goal, Depths.from_trials(specs), nothing_known(folder)), ResultStore(folder / "store")
    simulate(source, table)
    recorder = Recorder(store)
    for spec in specs:
        if spec.trial_id in source._ended:
            recorder.started(spec, 1)
            for record in table[spec.trial_id]:
                recorder.evaluated(spec, record)
            recorder.ended(End(spec, State.COMPLETED))
    recorder.close()
    trials = tuple((spec.trial_id, spec.model_dump(mode="json")) for spec in specs)
    store.add_plan(SweepPlan("small", 1.0, "small.yaml", trials, goal=goal.plan.as_json()))
    return source, str(folder / "store")


# Between two freezes and beyond one a search decides otherwise; what the scores are like is a matter of the case alone.
QUICK = [("normal", 0.4), ("a freeze collapses", 1.0), ("a baseline at chance", 0.4)]
SLOW = [("normal", 1.0), ("skewed", 0.4), ("skewed", 1.0), ("documents", 1.0)]
SLOW += [("folds", 1.0), ("whole seeds of folds", 0.4)]


@each("case, tolerance", [*QUICK, *SLOW], quick=len(QUICK))
def test_the_end_of_a_search_is_the_answer_on_every_surface(tmp_path: Path, case: str, tolerance: float) -> None:
    asked: dict[str, Any] = {"documents": False, "sentences": True, "data": {}} | CASES[case]
    specs = [make_spec(freeze=first_k(n), seed=seed, **_data(asked)) for n in LAYERS for seed in SEEDS]
    made = {name: asked[name] for name in ("score", "documents", "sentences")}
    table = {spec.trial_id: [record_of(LAYERS.index(spec.freeze.depth), spec.seed, **made)] for spec in specs}
    goal = GoalSpec(choose_depth=DepthGoalSpec(tolerance=tolerance))
    source, store = ended_in(tmp_path, goal, specs, table)
    (told,) = answer(store)
    assert [line.strip() for line in source.answer_lines(1_000)[:2]] == [
        f"chosen  {lines_of(told)[0]}",
        lines_of(told)[1],
    ]
    assert [row["verdict"] for row in told.settings] == source.decision().table["verdict"].tolist()
    assert (told.outcome == "freeze") == (source.decision().choice is not None)
    printed = CliRunner().invoke(app, ["answer", "--store", store, "--json"])
    assert json.loads(printed.stdout) == [told.as_json()]
    page = selected(ResultStore(Path(store)))
    (shown,) = answers_of_page(page).answers
    assert shown.as_json() == told.as_json()
    assert told.sentence in "\n".join(answer_lines(page))
    if tolerance == 1.0:
        write_report(Frames(open_store(store)), PageQuery(sweep="small"), tmp_path / "report", pictures=False)
        assert escape(told.sentence) in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    if case == "a baseline at chance":
        assert told.outcome == "not learned"
        assert all(row["low"] is None for row in told.settings)
        assert not told.trade_offs


def _data(asked: dict[str, Any]) -> dict[str, Any]:
    return {"data": asked["data"]} if asked["data"] else {}

"""What a launch did, and what other drivers of the sweep did meanwhile, are told apart."""

from __future__ import annotations

from pathlib import Path

from orchestrator.api.launching import outcome_lines
from orchestrator.execution.trial_rows import trial_row
from orchestrator.session.outcome import outcome_of
from orchestrator.store import ResultStore
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from orchestrator.sweeps.trial_resources import Resources
from tests.builders import first_attempts, make_record, make_spec
from trials.record import State

SPECS = tuple(make_spec(seed=seed) for seed in range(4))
PLAN = Plan(SweepSpec(name="tiny", resources=Resources(gpus=0)), "tiny.yaml", SPECS, SPECS, first_attempts(SPECS))


def test_trials_of_other_drivers_are_counted_and_told_apart(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    for spec, state in zip(SPECS, (State.COMPLETED, State.COMPLETED, State.FAILED), strict=False):
        store.append("trials", [trial_row(spec, 1, [make_record(last=True)], state, None)])
    outcome = outcome_of(PLAN, store, 1.0, ran={SPECS[0].trial_id})
    assert (outcome.completed, outcome.failed, outcome.ran, outcome.elsewhere) == (2, 1, 1, 2)
    assert "2 completed, 1 failed of 4 trials in 1.0 s; other drivers ran 2 of them" in outcome_lines(outcome)[0]
    alone = outcome_of(PLAN, store, 1.0, ran={spec.trial_id for spec in SPECS})
    assert (alone.ran, alone.elsewhere) == (3, 0)
    assert "other drivers" not in outcome_lines(alone)[0]

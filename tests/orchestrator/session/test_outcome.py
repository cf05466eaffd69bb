"""What a launch did, and what other drivers of the sweep did meanwhile, are told apart."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.api.launching import outcome_lines
from orchestrator.config.limits import Limits, Resources
from orchestrator.execution.trial_queue import End, Listed, TrialQueue
from orchestrator.session.outcome import outcome_of
from orchestrator.sweeps.plan import Plan
from orchestrator.sweeps.sweep import SweepSpec
from tests.builders import first_attempts, make_spec
from tests.loops import Unshared
from trials.record import State
from trials.spec import TrialSpec

SPECS = tuple(make_spec(seed=seed) for seed in range(4))
PLAN = Plan(SweepSpec(name="tiny", resources=Resources(gpus=0)), "tiny.yaml", SPECS, SPECS, first_attempts(SPECS))


def test_trials_of_other_drivers_are_counted_and_told_apart() -> None:
    states = (State.COMPLETED, State.COMPLETED, State.FAILED)
    ends = [End(spec, state, is_here=spec is SPECS[0]) for spec, state in zip(SPECS, states, strict=False)]
    outcome = outcome_of(PLAN, "results", 1.0, ends)
    assert (outcome.completed, outcome.failed, outcome.ran, outcome.elsewhere) == (2, 1, 1, 2)
    assert "2 completed, 1 failed of 4 trials in 1.0 s; other drivers ran 2 of them" in outcome_lines(outcome)[0]
    alone = outcome_of(PLAN, "results", 1.0, [End(end.spec, end.state) for end in ends])
    assert (alone.ran, alone.elsewhere) == (3, 0)
    assert "other drivers" not in outcome_lines(alone)[0]


def test_the_newest_attempt_of_a_trial_counts_and_what_ran_elsewhere_without_being_asked_for() -> None:
    class Others(Unshared):
        def ends(self, specs: Iterable[TrialSpec]) -> list[End]:
            return [End(SPECS[n], State.FAILED, is_here=False) for n in (0, 2)]

    queue = TrialQueue(Listed(SPECS[:2]), Limits(), Others())
    for state in (State.LOST, State.COMPLETED):
        queue.take()
        queue.ended(End(SPECS[0], state))
    ends = {end.spec: (end.state, end.is_here) for end in queue.ends(SPECS)}
    assert ends == {SPECS[0]: (State.COMPLETED, True), SPECS[2]: (State.FAILED, False)}

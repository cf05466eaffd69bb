"""Learning curves of a running sweep and their extrapolation, for the live display and `status`."""

from __future__ import annotations

import math

from orchestrator.analysis.cells import Group, objective_group
from orchestrator.config.quantities import points
from orchestrator.forecast.curve import Outlook, outlook
from orchestrator.forecast.curve_alike import MOST, Others
from orchestrator.forecast.curve_values import Curve
from trials.spec import TrialSpec

Kind = tuple[Group, int, str]  # objective group, planned epochs and schedule: such curves are comparable


def kind_of(spec: TrialSpec) -> Kind:
    """The kind of a trial; complete curves of the same kind help to predict its own."""
    return objective_group(spec), spec.optim.epochs, spec.optim.schedule


class LiveCurves:
    """The curves of running trials, and the complete curves of others. One thread may write while another reads."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[tuple[float, float], ...]] = {}  # trial id -> (epoch, score) of each evaluation
        self._complete: dict[Kind, tuple[Curve, ...]] = {}
        self._others: dict[Kind, tuple[tuple[Curve, ...], Others]] = {}
        self._known: dict[str, tuple[tuple[object, ...], Outlook | None]] = {}

    def started(self, spec: TrialSpec) -> None:
        """An attempt begins, and reports all its evaluations from the first."""
        self.forget(spec)

    def evaluated(self, spec: TrialSpec, epoch: float, score: float) -> None:
        """Add an evaluation; a score that is not finite and a repeated epoch are ignored."""
        points = self._running.get(spec.trial_id, ())
        if math.isfinite(score) and epoch > (points[-1][0] if points else 0.0):
            self._running[spec.trial_id] = (*points, (epoch, score))

    def completed(self, spec: TrialSpec) -> None:
        """The trial is complete; its curve helps to predict others from now on."""
        kind, curve = kind_of(spec), self._curve(spec)
        self.forget(spec)
        if curve.ends_at(spec.optim.epochs):
            self._complete[kind] = (*self._complete.get(kind, ()), curve)[-MOST:]

    def forget(self, spec: TrialSpec) -> None:
        """The attempt of the trial is over."""
        self._running.pop(spec.trial_id, None)
        self._known.pop(spec.trial_id, None)

    def outlook(self, spec: TrialSpec) -> Outlook | None:
        """The expected end of a running trial; None if unknown. Computed once per new evaluation."""
        curve, complete = self._curve(spec), self._complete.get(kind_of(spec), ())
        state = (len(curve), complete[-1:])  # the newest complete curve identifies all before it
        if self._known.get(spec.trial_id, (None, None))[0] != state:
            others = self._prepared(spec, complete)
            expected = outlook(curve, spec.optim.epochs, others, anneals=spec.optim.schedule == "linear")
            self._known[spec.trial_id] = (state, expected)
        return self._known[spec.trial_id][1]

    def _curve(self, spec: TrialSpec) -> Curve:
        points = self._running.get(spec.trial_id, ())
        return Curve(tuple(epoch for epoch, _ in points), tuple(score for _, score in points))

    def _prepared(self, spec: TrialSpec, complete: tuple[Curve, ...]) -> Others:
        """The complete curves as arrays, rebuilt whenever another trial has ended."""
        kind = kind_of(spec)
        cached = self._others.get(kind)
        if cached is None or cached[0] is not complete:
            cached = self._others[kind] = (complete, Others(complete, spec.optim.epochs))
        return cached[1]


def expected_best(expected: Outlook | None) -> str:
    """`expected best 84.2 ± 0.6`: in points, with the wider half of its 80 % interval; empty if unknown."""
    if expected is None or expected.is_over:
        return ""
    best = expected.best
    return f"expected best {points(best.median, 1)} ± {points(max(best.high - best.median, best.median - best.low), 1)}"

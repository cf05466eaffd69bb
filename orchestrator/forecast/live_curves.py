"""The curves of a sweep while it runs, and what is told of them: for the live display and `status`."""

from __future__ import annotations

import math

from orchestrator.analysis.cells import Group, objective_group
from orchestrator.forecast.curve import Outlook, outlook
from orchestrator.forecast.curve_alike import MOST, Others
from orchestrator.forecast.curve_values import Curve
from trials.spec import TrialSpec

Kind = tuple[Group, int, str]  # curves go on alike within an objective group, planned epochs and a schedule


def kind_of(spec: TrialSpec) -> Kind:
    """The trials whose complete curves say something of this one's."""
    return objective_group(spec), spec.optim.epochs, spec.optim.schedule


class WatchedCurves:
    """The evaluations of running trials, and the complete curves of others. One thread may tell, another ask."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[tuple[float, float], ...]] = {}  # (epoch, score), by trial
        self._complete: dict[Kind, tuple[Curve, ...]] = {}
        self._others: dict[Kind, tuple[tuple[Curve, ...], Others]] = {}
        self._known: dict[str, tuple[tuple[object, ...], Outlook | None]] = {}

    def started(self, spec: TrialSpec) -> None:
        """An attempt begins, and tells all of its evaluations from the first on."""
        self.forget(spec)

    def evaluated(self, spec: TrialSpec, epoch: float, score: float) -> None:
        """Keep an evaluation; a score that is no number, or an epoch again, is left out."""
        points = self._running.get(spec.trial_id, ())
        if math.isfinite(score) and epoch > (points[-1][0] if points else 0.0):
            self._running[spec.trial_id] = (*points, (epoch, score))

    def completed(self, spec: TrialSpec) -> None:
        """Its curve tells of others from now on."""
        kind, curve = kind_of(spec), self._curve(spec)
        self.forget(spec)
        if curve.ends_at(spec.optim.epochs):
            self._complete[kind] = (*self._complete.get(kind, ()), curve)[-MOST:]

    def forget(self, spec: TrialSpec) -> None:
        """Its attempt is over."""
        self._running.pop(spec.trial_id, None)
        self._known.pop(spec.trial_id, None)

    def outlook(self, spec: TrialSpec) -> Outlook | None:
        """How a running trial will end; None where not known. Computed once for what has been evaluated."""
        curve, complete = self._curve(spec), self._complete.get(kind_of(spec), ())
        kept = self._known.get(spec.trial_id)
        if kept is not None and kept[0] == (len(curve), complete[-1:]):  # the newest stands for all before it
            return kept[1]
        found = outlook(
            curve, spec.optim.epochs, self._prepared(spec, complete), anneals=spec.optim.schedule == "linear"
        )
        self._known[spec.trial_id] = ((len(curve), complete[-1:]), found)
        return found

    def _curve(self, spec: TrialSpec) -> Curve:
        points = self._running.get(spec.trial_id, ())
        return Curve(tuple(epoch for epoch, _ in points), tuple(score for _, score in points))

    def _prepared(self, spec: TrialSpec, complete: tuple[Curve, ...]) -> Others:
        """The complete curves as arrays, made anew where one more has ended."""
        kind = kind_of(spec)
        kept = self._others.get(kind)
        if kept is None or kept[0] is not complete:
            kept = self._others[kind] = (complete, Others(complete, spec.optim.epochs))
        return kept[1]


def reach_words(found: Outlook | None) -> str:
    """`-> 0.842 ±0.006`: the best score by the end, and the wider half of its 80 % interval; empty where not known."""
    if found is None or found.is_over:
        return ""
    best = found.best
    return f"-> {best.median:.3f} ±{max(best.high - best.median, best.median - best.low):.3f}"

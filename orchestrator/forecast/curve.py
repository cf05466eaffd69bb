"""The expected end of a running trial from its evaluations so far, and the gain of one more epoch. For display only.

    expected = outlook(Curve((1, 2, 3), (0.692, 0.763, 0.790)), planned=9, others=Others(complete, 9))
    expected.best        # best score by epoch 9: median and 80 % interval
    expected.more        # the same trial planned with 10 epochs, less this one

The curve of the trial is extrapolated by parametric shapes (`curve_shapes`), and by complete curves of its objective
group that were similar so far (`curve_alike`). Both form one weighted sample, in which the other curves weigh more, the
more numerous and similar they are. One evaluation without other curves gives no prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.forecast.curve_alike import Alike, Others
from orchestrator.forecast.curve_shapes import extrapolated
from orchestrator.forecast.curve_values import AGAIN_DOUBT, SAME, Curve, CurvePrediction, Draws, between, jitter, joined
from orchestrator.forecast.figure import Figure

LEAST_OTHERS = 3  # other curves needed to predict from one evaluation
CEILING = 1.0  # the largest possible score
_AGAIN = 0.75  # share of the gain over the last window that one more epoch gains


@dataclass(frozen=True)
class Outlook:
    """The expected end of a trial.

    Attributes:
        epochs: The epochs of the remaining evaluations; empty for a complete trial.
        path: The expected score of each.
        best: The best score by the planned end; for a complete trial its best score.
        more: The gain in best score if the trial were planned with one more epoch; None if unknown.
    """

    epochs: tuple[float, ...]
    path: tuple[Figure, ...]
    best: Figure
    more: Figure | None
    source: str

    @property
    def is_over(self) -> bool:
        """Whether no evaluation remains."""
        return not self.epochs

    @property
    def last(self) -> Figure | None:
        """The expected score of the last evaluation; None if no evaluation remains."""
        return self.path[-1] if self.path else None


def window(planned: float, *, anneals: bool) -> float:
    """The number of last epochs whose gain is about the gain of one more epoch.

    If the learning rate falls linearly to zero, the last k of T epochs amount to k^2/(2T) epochs at the full rate, and
    a trial of T + 1 epochs has half an epoch more than one of T; so k = sqrt(T). The gain of the last epoch alone says
    little, as its rate is almost zero. With a constant rate k = 1. In 24 trials of 16 settings of one corpus, run with
    9 and with 10 epochs, the tenth epoch gained about three quarters of the gain of the last three of nine.
    """
    return float(np.sqrt(planned)) if anneals else 1.0


def outlook(
    curve: Curve,
    planned: float,
    others: Others | Sequence[Curve] = (),
    *,
    anneals: bool = True,
    ceiling: float = CEILING,
) -> Outlook | None:
    """The expected end of a trial; None if unknown.

    Args:
        others: Complete curves of the same objective group and schedule; those with another end are ignored.
        anneals: Whether the learning rate falls to zero at the planned end.
    """
    if not len(curve) or not planned > 0:
        return None
    known, ahead = others if isinstance(others, Others) else Others(others, planned), curve.ahead(planned)
    k = window(planned, anneals=anneals)
    alike = known.like(curve, ahead, k)
    if len(ahead):
        extrapolation = extrapolated(curve, planned, anneals=anneals)
        own = extrapolation.prediction(k) if extrapolation else None
    else:
        own = _finished(curve, k)
    if own is None and (alike is None or alike.n < LEAST_OTHERS):
        return None
    sources = _weighed(own, alike)
    label = "from " + " and ".join(source.label for _, source in sources)
    more = [source.gain.times(_AGAIN, share) for share, source in sources if source.gain is not None]
    return Outlook(
        epochs=tuple(ahead.tolist()),
        path=tuple(
            joined([source.path[n].times(1.0, share) for share, source in sources]).figure(label, ceiling)
            for n in range(len(ahead))
        ),
        best=joined([source.top.times(1.0, share) for share, source in sources]).figure(label, ceiling),
        more=joined(more).figure(label, np.inf) if more else None,
        source=label,
    )


def _weighed(own: CurvePrediction | None, alike: Alike | None) -> list[tuple[float, CurvePrediction]]:
    """The available sources and their weights, which sum to 1; at least one."""
    trust = 0.0 if alike is None else alike.trust if own is not None else 1.0
    both = ((1 - trust, own), (trust, alike.prediction if alike else None))
    return [(share, source) for share, source in both if source is not None]


def _finished(curve: Curve, k: float) -> CurvePrediction:
    """For a complete curve, only the gain of more epochs is unknown."""
    top = Draws(np.array([curve.best]), np.ones(1))
    start = curve.now - k
    if start < curve.epochs[0] - SAME:
        return CurvePrediction((), top, None, "its own curve")
    x, y = np.array(curve.epochs), np.array([curve.scores])
    gain = y[:, -1] - between(x, y, start)
    spread = np.hypot(np.sqrt(2) * jitter(curve), AGAIN_DOUBT * gain)
    return CurvePrediction((), top, Draws.around(gain, np.ones(1), spread), "its own curve")

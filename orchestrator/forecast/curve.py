"""How a running trial will end, from its evaluations so far, and what another epoch would be worth. For display.

    found = outlook(Curve((1, 2, 3), (0.692, 0.763, 0.790)), planned=9, others=Others(complete, 9))
    found.best        # best score by epoch 9: median and 80 % interval
    found.more        # the same trial planned with 10 epochs, less this one

The trial's own curve is carried on by a few shapes (`curve_shapes`); complete curves of its objective group say what
came after in trials that were alike so far (`curve_alike`). The two are one sample, in which the others weigh the more,
the more and the nearer they are. Nothing is known from one evaluation without others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.forecast.curve_alike import Alike, Others
from orchestrator.forecast.curve_shapes import extrapolated
from orchestrator.forecast.curve_values import AGAIN_DOUBT, SAME, Curve, Draws, Evidence, between, jitter, joined
from orchestrator.forecast.figure import Figure

LEAST_OTHERS = 3  # from one evaluation nothing is told with fewer
CEILING = 1.0  # no score of a task is larger
_AGAIN = 0.75  # of the last window's gain is gained by the epoch more


@dataclass(frozen=True)
class Outlook:
    """What may become of a trial.

    Attributes:
        epochs: Those of the evaluations to come; empty where it is complete.
        path: The score of each.
        best: The best score by the planned end; where the trial is complete, the one that it has.
        more: The best score of the same trial planned with one epoch more, less `best`; None where not known.
        source: What it is told from.
    """

    epochs: tuple[float, ...]
    path: tuple[Figure, ...]
    best: Figure
    more: Figure | None
    source: str

    @property
    def is_over(self) -> bool:
        """Whether the last evaluation was made."""
        return not self.epochs

    @property
    def last(self) -> Figure | None:
        """The score of the last evaluation; None where it was made."""
        return self.path[-1] if self.path else None


def window(planned: float, *, anneals: bool) -> float:
    """The epochs at the end whose gain is about that of one epoch more.

    Where the rate falls linearly to zero, the last k of T epochs hold k^2/(2T) of a full rate's epoch, and a trial of
    T + 1 epochs holds half an epoch more than one of T; so k = sqrt(T). The last epoch's own gain says little of it:
    its rate is almost zero. With a constant rate k = 1. Of 24 trials of 9 epochs that were run with 10 as well, of
    sixteen cells of one corpus, the tenth brought about three quarters of what the last three of nine had.
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
    """What may become of a trial; None where nothing is known.

    Args:
        curve: Its evaluations so far.
        planned: Epochs.
        others: Complete curves of the same objective group and schedule; those with another end are left out.
        anneals: Whether the learning rate falls to zero at the planned end.
        ceiling: No score is larger.
    """
    if not len(curve) or not planned > 0:
        return None
    known, ahead = others if isinstance(others, Others) else Others(others, planned), curve.ahead(planned)
    k = window(planned, anneals=anneals)
    alike = known.like(curve, ahead, k)
    own = _finished(curve, k) if not len(ahead) else _going_on(curve, planned, k, anneals=anneals)
    if own is None and (alike is None or alike.n < LEAST_OTHERS):
        return None
    sources = _weighed(own, alike)
    said = "from " + " and ".join(source.said for _, source in sources)
    more = [source.gain.times(_AGAIN, share) for share, source in sources if source.gain is not None]
    return Outlook(
        epochs=tuple(ahead.tolist()),
        path=tuple(
            joined([source.path[n].times(1.0, share) for share, source in sources]).figure(said, ceiling)
            for n in range(len(ahead))
        ),
        best=joined([source.top.times(1.0, share) for share, source in sources]).figure(said, ceiling),
        more=joined(more).figure(said, np.inf) if more else None,
        source=said,
    )


def _weighed(own: Evidence | None, alike: Alike | None) -> list[tuple[float, Evidence]]:
    """The sources there are and their weights, whose sum is 1; at least one."""
    trust = 0.0 if alike is None else alike.trust if own is not None else 1.0
    both = ((1 - trust, own), (trust, alike.evidence if alike else None))
    return [(share, source) for share, source in both if source is not None]


def _going_on(curve: Curve, planned: float, k: float, *, anneals: bool) -> Evidence | None:
    """What the curve itself tells of its end."""
    found = extrapolated(curve, planned, anneals=anneals)
    return found.evidence(k) if found else None


def _finished(curve: Curve, k: float) -> Evidence:
    """Of a complete curve all is known but what more epochs would have brought."""
    top = Draws(np.array([curve.best]), np.ones(1))
    start = curve.now - k
    if start < curve.epochs[0] - SAME:
        return Evidence((), top, None, "its own curve")
    x, y = np.array(curve.epochs), np.array([curve.scores])
    gain = y[:, -1] - between(x, y, start)
    spread = np.hypot(np.sqrt(2) * jitter(curve), AGAIN_DOUBT * gain)
    return Evidence((), top, Draws.around(gain, np.ones(1), spread), "its own curve")

"""What a dev split can tell at all, however many seeds there are."""

from __future__ import annotations

import math

DIFFERING = 0.05  # of dev's labels that two settings give differently; 2 to 10 % in our own sweeps
_NORMAL_95 = 1.96


def resolved_points(n: int) -> float:
    """The smallest loss, in points, that so many labels tell from chance where `DIFFERING` of them differ."""
    return 100 * _NORMAL_95 * math.sqrt(DIFFERING / n) if n else math.inf


def labels_for(tolerance: float) -> int:
    """How many labels tell a loss of so many points from chance; two digits, rounded up."""
    return _two_digits(DIFFERING * (100 * _NORMAL_95 / tolerance) ** 2)


def labels_that_show(tolerance: float) -> int:
    """How many labels show at least one difference, 19 times in 20, if the loss is the tolerance, in points; likewise.

    It is the question where none was seen (J. A. Hanley and A. Lippman-Hand, "If nothing goes wrong, is everything all
    right?" (1983)).
    """
    return _two_digits(math.log(0.05) / math.log1p(-tolerance / 100))


def _two_digits(n: float) -> int:
    step = 10 ** max(0, math.floor(math.log10(max(n, 1))) - 1)
    return int(math.ceil(n / step) * step)

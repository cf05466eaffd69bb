"""Which of several depths are shown to be harmless, where each freezes all that the one before freezes.

Losses are taken to run with depth: where one depth loses too much, so does every deeper one. Then "depth j is harmless"
may be shown by depth j itself or by any deeper one, and a depth is chosen if that is shown of it and of all before it:
only the first depth that truly loses too much can make the choice wrong, so the error of its test is the error of the
choice (closed testing of nested hypotheses: R. Marcus, E. Peritz and K. Gabriel, Biometrika 63 (1976), 655-660). Each
such test divides its error, before the data, among the depths that may speak: most for the next depth of a `spread`,
less for depth j itself, a little for each deeper one. So three depths that span the encoder suffice to choose one of
them, and a depth that stays undecided bars none that is clear. Where losses do not run with depth the error holds as
well for what is chosen (`tests.benchmarks.choose_depth`), because a depth is chosen by its own interval alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from orchestrator.analysis.rows import Floats

SPREAD = (0.0, 1 / 3, 2 / 3, 1.0)  # of the depths
_NEXT, _OWN, _DEEPER = 0.5, 0.3, 0.2  # shares of the error: of the next depth of the spread, its own, all deeper ones'


def spread(n: int) -> list[int]:
    """Depths of `n`, from the least frozen to the most, that span them: the ends and the thirds."""
    return sorted({round(share * (n - 1)) for share in SPREAD}) if n else []


def error_shares(n: int, of_spread: Sequence[int]) -> Floats:
    """(n, n): the share of the error with which depth d (column) may show that depth j (row) is harmless; 0 for d < j.

    `of_spread` are the depths that most is expected of. Rows add up to at most 1.
    """
    shares = np.triu(np.full((n, n), _DEEPER / max(n, 1)))
    for j in range(n):
        ahead = next((d for d in sorted(of_spread) if d >= j), j)
        shares[j, j] = _OWN
        shares[j, ahead] = _NEXT if ahead > j else _NEXT + _OWN
        if ahead == j == n - 1:
            shares[j, j] = 1.0
    return shares


def tested_shares(shares: Floats, is_within: Callable[[int, float], bool]) -> tuple[Floats, int]:
    """The share of the error that each depth is tested with, and how many depths are shown to be harmless.

    Args:
        shares: As of `error_shares`.
        is_within: Whether the interval of a depth at a share of the error is within the tolerance.
    """
    n = len(shares)
    says = np.array([[d >= j and is_within(d, float(shares[j, d])) for d in range(n)] for j in range(n)]).reshape(n, n)
    by_others = np.array([[says[j].sum() > says[j, d] for d in range(n)] for j in range(n)]).reshape(n, n)
    tested = [min([shares[j, d] for j in range(d + 1) if not by_others[j, d]], default=shares[d, d]) for d in range(n)]
    shown = says.any(axis=1)
    return np.array(tested), n if shown.all() else int(np.argmin(shown))

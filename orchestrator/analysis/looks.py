"""Looking again as seeds are added: intervals that hold at every look from `first` seeds to a stated `most`.

Who adds seeds until an interval excludes what it should errs more often than at each look alone. So the error is spent
over the looks (K. Lan and D. DeMets, "Discrete Sequential Boundaries for Clinical Trials", Biometrika 70 (1983),
659-663) in proportion to the third power of the information (J. Kim and D. DeMets, Biometrika 74 (1987), 149-154):
little at three seeds, whose variance has two degrees of freedom and whose skewness nobody sees.

Information is one by the variance of the mean. More seeds shrink their own part of it, the sentences' part stays: with
w the seeds' share of the variance at n seeds, the mean at m seeds has (w n / m + 1 - w) times the present variance.
Where w is 1, three seeds of ten have three tenths of the information; where it is 0, all looks see the same and looking
again costs nothing. Means of m and of more seeds covary by the variance of the later one, with sentences as without, so
the critical values are those of Brownian motion at the times of the information, by recursion (P. Armitage, C.
McPherson and B. Rowe, "Repeated Significance Tests on Accumulating Data", JRSS A 132 (1969), 235-244). They are normal;
their tails are then taken with the degrees of freedom of `two_way` (C. Jennison and B. Turnbull, "Group Sequential
Methods" (2000), section 11.5), and its guard against skewed losses.

The share is that of the present look, at its 95 % bound, so that an interval depends on nothing but the values, `first`
and `most`. `most` has to be fixed before the first look: a plan that grows is a new plan, and adds the error of its new
looks (exponential losses: 1 % for two more seeds).

Two constants are chosen, not derived, by simulation of looks from 3 to 8 and to 20, seeds alone, errors 5 to 0.5 %:

- `KEPT`: statistics of exponential losses agree less from look to look than Brownian motion does, and together spend
  1.15 to 1.23 times the error. So several looks get 0.7 of it: these losses, the worst ones promised for, then spend
  0.79 to 0.90, and at most 0.97 where sentences have a fifth or a tenth of the variance (`two_way`, its bound).
- `SPENDING`: any exponent keeps the error. With exponents 1, 2, 3, 4, and the error that each can be given, normal
  losses that are two standard deviations of a seed inside the tolerance are shown in 68, 80, 86, 89 % by the eighth
  seed, and 1.6, 0.6, 0.2, 0.1 % err at the third. 3 is close to O'Brien and Fleming's boundary, 1 to
  Pocock's (Jennison and Turnbull (2000), section 7.2.1).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import optimize, special

from orchestrator.analysis.decision_plan import PlannedLooks
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.two_way import Estimate

SPENDING = 3.0  # exponent of the information; chosen
KEPT = 0.7  # share of the error that several looks get; chosen, bounds exponential losses
_BOUND = 0.95  # level of the bound of the seeds' share
_SAME = 1 / 200  # a look with less new information, of all, is not a new one: it adds 2 % to the error
_SHARES = 50  # the seeds' share is rounded up to this grid
_FARTHEST = 8.0  # standard deviations
_NODES = np.polynomial.legendre.leggauss(64)  # tails are right to 2e-9 of themselves


def tails(of: Estimate, looks: PlannedLooks, tail: float) -> Floats:
    """The chance beyond each end that comes to `tail` over all looks together.

    For `two_way.deciding_ends`. 0 (ends at infinity) before the first look and after the last; NaN
    without a variance.
    """
    n, share = np.broadcast_arrays(of.n_seeds, of.share_bound(_BOUND))
    found = np.full(n.shape, np.nan)
    grid = np.ceil(share * _SHARES - 1e-9)
    for at, step in {*zip(n.ravel().tolist(), grid.ravel().tolist(), strict=True)}:
        if np.isfinite(step):
            found[(n == at) & (grid == step)] = _tail(looks, int(at), int(step), tail)
    return found


def _tail(looks: PlannedLooks, n: int, step: int, tail: float) -> float:
    return _boundary(looks, n, step, tail)[n - looks.first] if looks.first <= n <= looks.most else 0.0


@lru_cache(maxsize=4096)
def _boundary(looks: PlannedLooks, n: int, step: int, tail: float) -> tuple[float, ...]:
    """One-sided normal tails at which each look up to `n` seeds stops, where the share is `step` on its grid at n."""
    share = step / _SHARES
    m = np.arange(looks.first, n + 1)
    variance = share * n / np.append(m, looks.most) + 1 - share  # of the mean at each look, as from that at n
    time = variance[-1] / variance[:-1]
    return stopping_tails(time, tail * (KEPT if looks.first < looks.most else 1.0) * time**SPENDING)


def stopping_tails(time: Floats, spent: Floats) -> tuple[float, ...]:
    """One-sided normal tails at which looks stop Brownian motion so that they have stopped it with given chances.

    Args:
        time: (looks,) times, ascending up to 1: the information of each look as a share of all.
        spent: (looks,) chances to have stopped by then, ascending.
    """
    found = [float(spent[0])]
    last = 0  # the last look that was a new one
    nodes, mass = _start(float(-special.ndtri(spent[0]) * np.sqrt(time[0])), float(time[0]))
    for k in range(1, len(time)):
        if time[k] - time[last] < _SAME:
            found.append(found[-1])
            continue
        step_sd = float(np.sqrt(time[k] - time[last]))
        edge = _edge(nodes, mass, step_sd, float(spent[k] - spent[last]))
        found.append(float(special.ndtr(-edge / np.sqrt(time[k]))))
        nodes, mass = _step(nodes, mass, step_sd, edge, float(time[k]))
        last = k
    return tuple(found)


def _start(edge: float, time: float) -> tuple[Floats, Floats]:
    """Nodes below the edge and the mass of Brownian motion there."""
    nodes, weights = _quadrature(edge, time)
    return nodes, weights * np.exp(-(nodes**2) / (2 * time)) / np.sqrt(2 * np.pi * time)


def _step(nodes: Floats, mass: Floats, sd: float, edge: float, time: float) -> tuple[Floats, Floats]:
    """The same after an increment of that standard deviation, stopped at the new edge."""
    after, weights = _quadrature(edge, time)
    density = np.exp(-(((after[:, None] - nodes) / sd) ** 2) / 2) @ mass / (sd * np.sqrt(2 * np.pi))
    return after, weights * density


def _edge(nodes: Floats, mass: Floats, sd: float, spend: float) -> float:
    """Where paths that have not stopped come past with chance `spend`."""

    def excess(edge: float) -> float:
        return float(mass @ special.ndtr((nodes - edge) / sd)) - spend

    return float(optimize.brentq(excess, -_FARTHEST, _FARTHEST, xtol=1e-9))


def _quadrature(edge: float, time: float) -> tuple[Floats, Floats]:
    low = -_FARTHEST * np.sqrt(time)
    return low + (edge - low) * (_NODES[0] + 1) / 2, _NODES[1] * (edge - low) / 2

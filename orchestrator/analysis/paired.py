"""Differences to the baseline, paired by seed: how large, how sure, and how many seeds more it takes.

What the p values hold, by simulation of five to ten pairs (`test_paired`): Student's 4-6 % on normal differences, but
up to 12 % on skewed ones (exponential). `p_guarded`, the larger of Student's and Hall's, errs in 3-5 % of normal ones
and in at most 6 % up to a skewness of 1.7 (exponential: 6.2 % of five pairs, 7.4 % of three), so the verdict goes by
it. The exact tests suppose symmetry too, and cannot reach 5 % with five pairs whatever they show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from orchestrator.analysis.exact import reachable_p, sign_flip_p, wilcoxon_p
from orchestrator.analysis.holm import holm
from orchestrator.analysis.moments import (
    Moments,
    guarded_two_sided,
    hall_ends,
    moments,
    t_ends,
    t_statistic,
    two_sided,
    wider,
)
from orchestrator.analysis.power import seeds_needed
from orchestrator.analysis.rows import Codes, Floats, require, usable


class Pairs(NamedTuple):
    """Trials put together with the baseline's of the same seed.

    Attributes:
        cells: One row a non-baseline cell, also without trials: `cell`, `baseline`, `group`, `n_pairs`, `unpaired`
            (seeds that only one side has), `n_baseline` (the baseline's trials).
        rows: One row a pair: `cell`, `seed`, `difference` (cell minus baseline), and the columns of both sides that
            were asked for as `<name>` and `<name>_base`.
        codes: Which row of `cells` each row of `rows` belongs to.
    """

    cells: pd.DataFrame
    rows: pd.DataFrame
    codes: Codes


def pair(frame: pd.DataFrame, value: str = "score", keep: Iterable[str] = ()) -> Pairs:
    """Pairs of completed trials by equal `baseline` and `seed`.

    Raises:
        ValueError: A column is absent, or a cell has two completed trials of one seed.
    """
    require(frame, ["cell", "baseline", "group", "seed", value, *keep])
    rows = usable(frame, value)
    names = pd.Index(frame["cell"].unique())
    cell, base = (names.get_indexer(rows[side]) for side in ("cell", "baseline"))  # base -1: no trial at all
    seeds, seed = np.unique(rows["seed"].to_numpy(), return_inverse=True)
    at = np.full((len(names) + 1, len(seeds)), -1)  # the row of a cell and seed; the last line is of no baseline
    at[cell, seed] = np.arange(len(rows))
    partner = at[base, seed]
    ours, paired = cell != base, (cell != base) & (partner >= 0)
    columns = [*dict.fromkeys([value, *keep])]
    both = rows.loc[paired, ["cell", "seed", *columns]].reset_index(drop=True)
    theirs = rows[columns].iloc[partner[paired]].reset_index(drop=True).add_suffix("_base")
    both = pd.concat([both, theirs], axis=1)
    both["difference"] = both[value] - both[f"{value}_base"]
    others = (frame["cell"] != frame["baseline"]).to_numpy(dtype=bool)
    cells = frame.loc[others, ["cell", "baseline", "group"]].drop_duplicates("cell", ignore_index=True)
    place = np.full(len(names), -1)
    place[names.get_indexer(cells["cell"])] = np.arange(len(cells))
    codes = place[cell[paired]]
    n_pairs = np.bincount(codes, minlength=len(cells))
    n_ours = np.bincount(place[cell[ours]], minlength=len(cells))
    n_base = np.r_[np.bincount(cell, minlength=len(names)), 0][names.get_indexer(cells["baseline"])]
    cells = cells.assign(n_pairs=n_pairs, unpaired=n_ours + n_base - 2 * n_pairs, n_baseline=n_base)
    return Pairs(cells, both, codes)


def differences(
    frame: pd.DataFrame,
    value: str = "score",
    level: float = 0.95,
    *,
    exact: Collection[str] | Literal["all"] = (),
    seed: int = 0,
) -> pd.DataFrame:
    """One row a non-baseline cell, in order of first appearance.

    `exact` names the cells to run the exact tests for (they are slow for thousands); `seed` draws their sign patterns
    above 16 pairs.

    Columns: `cell`, `baseline`, `group`, `n_pairs`, `unpaired`, `mean` (cell minus baseline), `std`, `low`, `high`
    (Student's interval at `level`), `low_guarded`, `high_guarded` (the wider of Student's and Hall's), `p_t`,
    `p_guarded`, `p_holm` (of `p_guarded`; the family is all cells of one `group`), `p_permutation`, `p_wilcoxon` (NaN
    unless asked for), `reachable` (the smallest p these two can give), `effect` (d_z with Hedges' correction),
    `further_seeds` (Int64: to reach 80 % power if the true effect is the observed one; 0 if decided, NA if never or
    unknown), `decided`, `verdict` (words). What cannot be computed is NaN.

    Raises:
        ValueError: A column is absent, or a cell has two completed trials of one seed.
    """
    pairs = pair(frame, value)
    cells = pairs.cells
    m = moments(pairs.rows["difference"].to_numpy(dtype=np.float64), pairs.codes, len(cells))
    low, high = t_ends(m, level)
    low_guarded, high_guarded = wider((low, high), hall_ends(m, level))
    table = cells.drop(columns="n_baseline").assign(
        mean=m.mean, std=m.std, low=low, high=high, low_guarded=low_guarded, high_guarded=high_guarded
    )
    family = cells["group"].factorize()[0].astype(np.intp)
    p_guarded = _defined(m, guarded_two_sided(m))
    table = table.assign(p_t=_defined(m, two_sided(m, t_statistic(m))), p_guarded=p_guarded)
    table = table.assign(p_holm=holm(p_guarded, family), **_exact(pairs, exact, seed))
    decided = (table["p_holm"] <= 1 - level).to_numpy(dtype=bool)
    return table.assign(
        reachable=reachable_p(m.n),
        effect=_hedges(m),
        further_seeds=_further(m, decided, family, 1 - level),
        decided=decided,
        verdict=_verdicts(table.assign(n_baseline=cells["n_baseline"]), family, decided, 1 - level),
    )


def _defined(m: Moments, p: Floats) -> Floats:
    """The p values where a t test says something: 1 where no pair differs at all, NaN where all differ by the same."""
    flat = m.std == 0
    return np.where(flat & (m.mean == 0), 1.0, np.where(flat, np.nan, p))


def _exact(pairs: Pairs, wanted: Collection[str] | Literal["all"], seed: int) -> dict[str, Floats]:
    """The two exact p of the wanted cells."""
    found = {"p_permutation": np.full(len(pairs.cells), np.nan), "p_wilcoxon": np.full(len(pairs.cells), np.nan)}
    chosen = range(len(pairs.cells)) if wanted == "all" else np.flatnonzero(pairs.cells["cell"].isin(list(wanted)))
    values = pairs.rows["difference"].to_numpy(dtype=np.float64)
    order = np.argsort(pairs.codes, kind="stable")
    ends = np.searchsorted(pairs.codes[order], np.arange(len(pairs.cells) + 1))
    for row in chosen:
        sample = values[order[ends[row] : ends[row + 1]]]
        found["p_permutation"][row] = sign_flip_p(sample, seed=seed)
        found["p_wilcoxon"][row] = wilcoxon_p(sample)
    return found


def _hedges(m: Moments) -> Floats:
    """Mean by std of the differences, times Hedges' exact small-sample factor (1981) with n - 1 degrees of freedom."""
    df = np.where(m.n > 1, m.n - 1, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.exp(special.gammaln(df / 2) - special.gammaln((df - 1) / 2)) / np.sqrt(df / 2)
        found: Floats = np.where((df > 1) & (m.std > 0), factor * m.mean / m.std, np.nan)
    return found


def _further(m: Moments, decided: np.ndarray, family: Codes, alpha: float) -> pd.api.extensions.ExtensionArray:
    """Seeds to add; each open cell must pass Holm's first open step, so alpha is shared among the open cells."""
    opened = ~decided & np.isfinite(m.mean)
    among = np.bincount(family, opened, minlength=1)[family] if len(family) else np.empty(0)
    needed = seeds_needed(np.where(opened, _hedges(m), np.nan), alpha / np.maximum(among, 1))
    more = np.where(decided, 0.0, np.maximum(needed - m.n, 1.0))
    return pd.array(np.where(np.isfinite(more), more, np.nan), dtype="Float64").astype("Int64")


def _verdicts(table: pd.DataFrame, family: Codes, decided: np.ndarray, alpha: float) -> list[str]:
    """What a reader may say of each cell."""
    tested = np.bincount(family, table["p_holm"].notna(), minlength=1)[family] if len(family) else np.empty(0)
    names = ["n_pairs", "n_baseline", "mean", "std", "p_holm"]
    rows = zip(*(table[name].tolist() for name in names), tested.tolist(), decided.tolist(), strict=True)
    return [
        _untested(n, n_base, mean, std) or _outcome(mean, p, sure, _too_few(n, int(among), alpha))
        for n, n_base, mean, std, p, among, sure in rows
    ]


def _outcome(mean: float, p_holm: float, decided: bool, short: str) -> str:
    """Of a cell that was tested; `short` says what an exact test could not show."""
    if not decided:
        return f"no difference shown (Holm p = {p_holm:.2g})" + (f"; {short}" if short else "")
    side = "better" if mean > 0 else "worse"
    return f"{side} by the t test; {short}" if short else side


def _untested(n: int, n_base: int, mean: float, std: float) -> str:
    """Why there is no test; empty where there is one."""
    if not n:
        return "no pairs" if n_base else "no baseline"
    if n == 1:
        return "one pair: no test"
    if std == 0:
        return "no pair differs" if mean == 0 else f"all {n} pairs differ by the same: no t test"
    return ""


def _too_few(n: int, among: int, alpha: float) -> str:
    """Whether an exact test, alone or with Holm's factor for `among` cells, could not decide whatever it showed."""
    least = 2.0 ** (1 - n)
    if least * among <= alpha:
        return ""
    return f"an exact test cannot reach {100 * alpha:g} % with {n} pairs" + (
        f" among {among} cells" if least <= alpha else ""
    )

"""Trials put together with the baseline's of the same seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from orchestrator.analysis.rows import Codes, require, usable


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

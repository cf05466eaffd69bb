"""Which rows may enter a figure (completed, one a cell and seed), each with that of the baseline of the same seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from trials.record import State

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
ROUNDING = 1e-9  # of a score, or in points of a loss: scores are ratios of counts, so what differs by less is equal
COMPLETED = State.COMPLETED.value


def require(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raise ValueError, naming the missing ones, if a frame lacks any of `columns`."""
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise ValueError(f"the frame has no column {', '.join(absent)}; it has {', '.join(map(str, frame.columns))}")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """`frame.to_dict("records")` in a third of the time, which tells with hundreds of frames of few rows."""
    columns = [[_plain_value(value) for value in frame[name].tolist()] for name in frame.columns]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return None if value is pd.NA else value


def refuse_twice(rows: pd.DataFrame, within: Sequence[str] = ()) -> None:
    """Raises ValueError if a cell has two of these rows with one seed and one value of the columns `within`.

    Rows without cells or seeds are left alone.
    """
    if not {"cell", "seed"}.issubset(rows.columns):
        return
    twice = rows.duplicated([*dict.fromkeys(["cell", "seed", *within])])
    if twice.any():
        first = rows[twice].iloc[0]
        raise ValueError(f"cell {first['cell']} has two completed trials of seed {first['seed']}; keep the newest")


def is_measured(frame: pd.DataFrame, value: str) -> npt.NDArray[np.bool_]:
    """(rows,) whether each is completed, by `state` where there is one, and has a finite `value`."""
    mask: npt.NDArray[np.bool_] = np.isfinite(numbers(frame, value))
    if "state" in frame.columns:
        mask &= (frame["state"] == COMPLETED).to_numpy(dtype=bool)
    return mask


def numbers(frame: pd.DataFrame, value: str) -> Floats:
    """(rows,) the column `value` as floats, NaN for what is missing."""
    column: Floats = frame[value].to_numpy(dtype=np.float64, na_value=np.nan)
    return column


def without_nan(values: Sequence[float] | Floats) -> Floats:
    """(numbers,) the values that are not NaN."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return flat[np.isfinite(flat)]


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
    is_usable = is_measured(frame, value)
    rows = np.flatnonzero(is_usable)
    names = pd.Index(frame["cell"].unique())
    cell, base = (names.get_indexer(frame[side]) for side in ("cell", "baseline"))  # base -1: no trial at all
    others = np.flatnonzero(cell != base)
    first = np.sort(others[np.unique(cell[others], return_index=True)[1]])  # a row of each cell but the baselines
    place = np.full(len(names), -1)
    place[cell[first]] = np.arange(len(first))
    cell, base = cell[rows], base[rows]
    seeds, seed = np.unique(frame["seed"].to_numpy()[rows], return_inverse=True)
    row_of = np.full((len(names) + 1, len(seeds)), -1)  # the row of a cell and seed; the last line is of no baseline
    row_of[cell, seed] = np.arange(len(rows))
    if (row_of >= 0).sum() < len(rows):
        refuse_twice(frame[is_usable])
    partner = row_of[base, seed]
    ours, paired = cell != base, (cell != base) & (partner >= 0)
    codes = place[cell[paired]]
    n_pairs = np.bincount(codes, minlength=len(first))
    n_ours = np.bincount(place[cell[ours]], minlength=len(first))
    n_base = np.r_[np.bincount(cell, minlength=len(names)), 0][names.get_indexer(frame["baseline"].array[first])]
    counts = {"n_pairs": n_pairs, "unpaired": n_ours + n_base - 2 * n_pairs, "n_baseline": n_base}
    # Each table is made at once: a table is asked for at every step of a search, and is of few rows.
    cells = pd.DataFrame({name: frame[name].array[first] for name in ("cell", "baseline", "group")} | counts)
    mine, theirs = rows[paired], rows[partner[paired]]
    columns = [*dict.fromkeys([value, *keep])]
    both = {name: frame[name].array[mine] for name in ("cell", "seed", *columns)}
    both |= {f"{name}_base": frame[name].array[theirs] for name in columns}
    return Pairs(cells, pd.DataFrame(both | {"difference": both[value] - both[f"{value}_base"]}), codes)

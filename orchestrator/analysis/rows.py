"""Which rows may enter a figure: completed, with a value, and one a cell and seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
ROUNDING = 1e-9  # of a score: scores are ratios of counts, so what differs by less is equal
COMPLETED = "completed"  # the state of a trial that ran to its end


def require(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raises ValueError that names the columns a frame lacks."""
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise ValueError(f"the frame has no column {', '.join(absent)}; it has {', '.join(map(str, frame.columns))}")


def usable(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """The completed trials (all rows where there is no `state`) whose `value` is a number.

    Raises:
        ValueError: A column is absent, or a cell has two such trials of one seed: a mean would count it twice.
    """
    require(frame, ["cell", "seed", value])
    rows = frame[measured(frame, value)]
    refuse_twice(rows)
    return rows


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


def measured(frame: pd.DataFrame, value: str) -> npt.NDArray[np.bool_]:
    """Which rows are completed and have a finite `value`."""
    mask: npt.NDArray[np.bool_] = np.isfinite(numbers(frame, value))
    if "state" in frame.columns:
        mask &= (frame["state"] == COMPLETED).to_numpy(dtype=bool)
    return mask


def numbers(frame: pd.DataFrame, value: str) -> Floats:
    """A column as floats, NaN for what is missing."""
    found: Floats = frame[value].to_numpy(dtype=np.float64, na_value=np.nan)
    return found


def finite(values: Sequence[float] | Floats) -> Floats:
    """The values that are numbers, as one flat array."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return flat[np.isfinite(flat)]

"""What a cell saves of its baseline: parameters, training time, peak memory, energy; never across devices.

Times, memory and energy are ratios of positive figures whose noise multiplies (a busy neighbour makes all of a trial
slower by a factor), so the interval is Student's on the logarithms of the ratios, paired by seed: it cannot leave
"saves 100 %", and it is the same whichever side is called the reference. `saved` is 1 minus the geometric mean of the
ratios.

Time is the training cost (`trial_frame.with_training_cost`): without the time that the states of frozen layers took,
freezing would look cheaper than it is. Set-up and evaluation are left out, as freezing does not change what they do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from orchestrator.analysis.moments import moments, t_ends
from orchestrator.analysis.paired import Pairs, pair
from orchestrator.analysis.rows import Floats, number, numbers, require
from orchestrator.analysis.trial_frame import TRAINING_COST

COUNTED = ("trainable_params",)  # the same under every seed and on every device
MEASURED = (TRAINING_COST, "peak_memory_bytes", "energy_j")
COSTS = (*COUNTED, *MEASURED)  # those shown unless others are asked for
_KNOWN = (*COSTS, "train_s")
_ACROSS = "different devices"


def savings(frame: pd.DataFrame, costs: Sequence[str] = COSTS, level: float = 0.95) -> pd.DataFrame:
    """One row a non-baseline cell and cost.

    Columns: `cell`, `baseline`, `cost` (a name of `COSTS`, or `train_s`), `n_pairs`
    (pairs the figure rests on), `saved` (share of the baseline's, 0..1, negative if it costs more), `low`, `high` (at
    `level`; both `saved` for counted costs, NaN below two pairs), `cost_mean`, `baseline_mean` (of the pairs, in the
    cost's unit; for counted costs of all trials), `note` (why there is no figure, or what was left out; else empty).

    Raises:
        ValueError: A column is absent, a cost is unknown, or a cell has two completed trials of one seed.
    """
    unknown = sorted(set(costs) - set(_KNOWN))
    if unknown:
        raise ValueError(f"unknown cost {', '.join(unknown)}; known: {', '.join(_KNOWN)}")
    parts = [(_counted if cost in COUNTED else _measured)(frame, cost, level) for cost in costs]
    return pd.concat(parts, ignore_index=True).reset_index(drop=True)


def _counted(frame: pd.DataFrame, cost: str, level: float) -> pd.DataFrame:
    """Any trial of a cell tells its count, whether it completed or not."""
    require(frame, ["cell", "baseline", "group", cost])
    means = pd.Series(numbers(frame, cost)).groupby(frame["cell"].to_numpy()).mean()
    others = (frame["cell"] != frame["baseline"]).to_numpy(dtype=bool)
    cells = frame.loc[others, ["cell", "baseline"]].drop_duplicates("cell", ignore_index=True)
    ours, base = (cells[side].map(means).to_numpy(dtype=np.float64) for side in ("cell", "baseline"))
    with np.errstate(divide="ignore", invalid="ignore"):
        saved = np.where(base > 0, 1 - ours / base, np.nan)
    note = np.where(np.isfinite(saved), "", np.where(np.isfinite(ours), "no baseline", "not recorded"))
    n = np.zeros(len(cells), dtype=np.int64)
    return _table(cells, cost, n, saved, (saved, saved), (ours, base), note)


def _measured(frame: pd.DataFrame, cost: str, level: float) -> pd.DataFrame:
    require(frame, ["device"])
    pairs = pair(frame, cost, keep=["device"])
    size = len(pairs.cells)
    ours, base = numbers(pairs.rows, cost), numbers(pairs.rows, f"{cost}_base")
    same, trouble = _one_device(pairs)
    positive = (ours > 0) & (base > 0)
    use = same & positive & ~trouble[pairs.codes]
    codes = pairs.codes[use]
    m = moments(np.log(ours[use] / base[use]), codes, size)
    low, high = t_ends(m, level)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = tuple(np.bincount(codes, side[use], size) / m.n for side in (ours, base))
    note = _notes(pairs, m.n, np.bincount(pairs.codes, ~same, size).astype(np.float64), trouble)
    ends = (-np.expm1(high), -np.expm1(low))
    return _table(pairs.cells, cost, m.n.astype(np.int64), -np.expm1(m.mean), ends, (means[0], means[1]), note)


def _one_device(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """(pairs whose sides ran on one known device, cells whose such pairs are spread over several)."""
    device = pairs.rows["device"]
    same = (device.notna() & (device == pairs.rows["device_base"])).to_numpy(dtype=bool, na_value=False)
    per_cell = device[same].groupby(pairs.codes[same]).nunique()
    spread = per_cell.reindex(range(len(pairs.cells)), fill_value=0).to_numpy() > 1
    return same, spread


def _notes(pairs: Pairs, n: Floats, across: Floats, spread: np.ndarray) -> list[str]:
    """Why a cell has no figure, or what its figure leaves out."""
    known = pairs.rows["device"].notna() & pairs.rows["device_base"].notna()
    unnamed = np.bincount(pairs.codes, ~known.to_numpy(dtype=bool), len(pairs.cells))
    notes = []
    for row, (used, apart, dark) in enumerate(zip(n, across, unnamed, strict=True)):
        total, has_base = int(pairs.cells["n_pairs"].iloc[row]), pairs.cells["n_baseline"].iloc[row]
        if not total:
            notes.append("no pairs measured" if has_base else "baseline not measured")
        elif spread[row] or (apart == total and dark < total):
            notes.append(_ACROSS)
        elif dark == total:
            notes.append("device not recorded")
        elif not used:
            notes.append("a cost of zero: no ratio")
        else:
            notes.append(f"{number(int(apart), 'pair')} on {_ACROSS} left out" if apart else "")
    return notes


def _table(
    cells: pd.DataFrame,
    cost: str,
    n: np.ndarray,
    saved: Floats,
    ends: tuple[Floats, Floats],
    means: tuple[Floats, Floats],
    note: Sequence[str] | np.ndarray,
) -> pd.DataFrame:
    return cells[["cell", "baseline"]].assign(
        cost=cost,
        n_pairs=n,
        saved=saved,
        low=ends[0],
        high=ends[1],
        cost_mean=means[0],
        baseline_mean=means[1],
        note=pd.Series(list(note), dtype="str"),
    )

"""What a cell saves of its baseline: operations, parameters, training time, peak memory, energy.

Operations, times, memory and energy are ratios of positive figures whose noise multiplies (a busy neighbour makes all
of a trial slower by a factor), so the interval is Student's on the logarithms of the ratios, paired by seed: it cannot
leave "saves 100 %", and it is the same whichever side is called the reference. `saved` is 1 minus the geometric mean of
the ratios.

Counts are the same everywhere: parameters also under every seed, while the operations of two seeds differ by the order
of their sentences if these are padded; those of padded and unpadded batches do not compare. What is measured compares
only between two trials that ran under the same conditions (`trial_frame.CONDITIONS`); their precision is the same, as a
baseline differs from its cell in what is frozen alone.

Time is the training cost (`trial_frame.with_costs`): without the time that the states of frozen layers took, freezing
would look cheaper than it is. Set-up and evaluation are left out, as freezing does not change what they do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.describe import moments, t_ends
from orchestrator.analysis.rows import COMPLETED, Floats, Pairs, numbers, pair, require
from orchestrator.analysis.trial_frame import CONDITIONS, ran_on_cpu
from orchestrator.config.quantities import amount
from trials.record import MEMORY, SAVED

FLOPS = "training_flops"
CONSTANT = ("trainable_params",)  # the same under every seed
COUNTED = (FLOPS, *CONSTANT)  # the same on every device
COSTS = (*COUNTED, *(cost for cost in SAVED if cost not in {*COUNTED, "train_s"}))  # shown unless others are asked for
WARM_WORKER = "not measured: resident memory of a warm worker"


def savings(frame: pd.DataFrame, costs: Sequence[str] = COSTS, level: float = 0.95) -> pd.DataFrame:
    """One row a non-baseline cell and cost.

    Columns: `cell`, `baseline`, `cost` (a name of `SAVED`), `n_pairs`
    (pairs the figure rests on; 0 for parameters), `saved` (share of the baseline's, 0..1, negative if it costs more),
    `low`, `high` (at `level`; both `saved` for parameters, NaN below two pairs), `cost_mean`, `baseline_mean` (of the
    pairs, in the cost's unit; for parameters of all trials), `note` (why there is no figure, or what was left out; else
    empty).

    Raises:
        ValueError: A column is absent, a cost is unknown, or a cell has two completed trials of one seed.
    """
    unknown = sorted(set(costs) - set(SAVED))
    if unknown:
        raise ValueError(f"unknown cost {', '.join(unknown)}; known: {', '.join(SAVED)}")
    parts = [(_constant if cost in CONSTANT else _pair_costs)(frame, cost, level) for cost in costs]
    return pd.concat(parts, ignore_index=True).reset_index(drop=True)


def default_saving(frame: pd.DataFrame) -> str:
    """`training_flops` where all completed trials (by `state`, if the frame has it) have them, else `trainable_params`.

    Times are not chosen for anybody: they vary, and in stores without FLOPs the trial that happened to compute the
    frozen states paid for all.
    """
    done = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
    has_flops = FLOPS in done.columns and len(done) > 0 and bool(np.isfinite(numbers(done, FLOPS)).all())
    return FLOPS if has_flops else "trainable_params"


def _constant(frame: pd.DataFrame, cost: str, level: float) -> pd.DataFrame:
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


def _pair_costs(frame: pd.DataFrame, cost: str, level: float) -> pd.DataFrame:
    of_cost = ["padding_free"] if cost in COUNTED else [*CONDITIONS]
    conditions = [name for name in of_cost if name in frame.columns]
    if cost not in COUNTED:
        require(frame, ["device"])
    pairs = pair(frame, cost, keep=conditions)
    size = len(pairs.cells)
    ours, base = numbers(pairs.rows, cost), numbers(pairs.rows, f"{cost}_base")
    reasons = _why_apart(pairs.rows, conditions)
    same = reasons == ""
    spread = _several_devices(pairs, same, conditions)
    # Pairs of several devices are each fair, but their mean would be one of no machine.
    use = same & (ours > 0) & (base > 0) & ~spread[pairs.codes]
    codes = pairs.codes[use]
    m = moments(np.log(ours[use] / base[use]), codes, size)  # noise of costs multiplies
    low, high = t_ends(m, level)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = tuple(np.bincount(codes, side[use], size) / m.n for side in (ours, base))
    note = _notes(pairs, m.n, reasons, spread, _why_unmeasured(frame, cost))
    ends = (-np.expm1(high), -np.expm1(low))  # 1 - ratio: the dearer end saves less
    return _table(pairs.cells, cost, m.n.astype(np.int64), -np.expm1(m.mean), ends, (means[0], means[1]), note)


def _why_apart(rows: pd.DataFrame, conditions: Sequence[str]) -> npt.NDArray[np.object_]:
    """Why the two sides of each pair do not compare; empty where they do. Only what both sides recorded is compared.

    Only the device has to be known: it makes times differ many times over.
    """
    reasons = np.full(len(rows), "", dtype=object)
    for name in reversed(conditions):  # the first one says most, so it is written last
        ours, base = (rows[side].to_numpy(dtype=object) for side in (name, f"{name}_base"))
        absent = pd.isna(ours) | pd.isna(base)
        for place in np.flatnonzero(~absent & (ours != base)):
            reasons[place] = _different(name, ours[place], base[place])
        if name == "device":
            reasons[absent] = "device not recorded"
    return reasons


def _different(name: str, ours: object, other: object) -> str:
    """`different threads: 1 and 2`."""
    texts = sorted(f"{value:g}" if isinstance(value, int | float) else str(value) for value in (ours, other))
    return f"different {CONDITIONS[name]}: {' and '.join(texts)}"


def _several_devices(pairs: Pairs, same: np.ndarray, conditions: Sequence[str]) -> np.ndarray:
    """(cells,) whether the comparable pairs of a cell ran on several devices."""
    if "device" not in conditions:
        return np.zeros(len(pairs.cells), dtype=bool)
    per_cell = pairs.rows["device"][same].groupby(pairs.codes[same]).nunique()
    several: np.ndarray = per_cell.reindex(range(len(pairs.cells)), fill_value=0).to_numpy() > 1
    return several


def _why_unmeasured(frame: pd.DataFrame, cost: str) -> str:
    """Why no trial has this cost; empty where one has, or nothing is known about it."""
    if cost == FLOPS and not np.isfinite(numbers(frame, cost)).any():
        return "not recorded"
    return WARM_WORKER if cost == MEMORY and len(frame) and ran_on_cpu(frame).any() else ""


def _notes(pairs: Pairs, n: Floats, reasons: npt.NDArray[np.object_], spread: np.ndarray, unmeasured: str) -> list[str]:
    """Why a cell has no saving, or which trials its saving leaves out."""
    apart: dict[int, list[str]] = {}
    for code, reason in zip(pairs.codes.tolist(), reasons, strict=True):
        if reason:
            apart.setdefault(code, []).append(reason)
    notes = []
    counts = zip(n, pairs.cells["n_pairs"].tolist(), pairs.cells["n_baseline"].tolist(), strict=True)
    for row, (used, total, has_base) in enumerate(counts):
        of_cell = apart.get(row, [])
        n_apart, first = len(of_cell), "".join(of_cell[:1])
        if not total:
            notes.append(unmeasured or ("no pairs measured" if has_base else "baseline not measured"))
        elif spread[row]:
            notes.append("pairs on different devices")
        elif n_apart == total:
            notes.append(first)
        elif not used:
            notes.append("a cost of zero: no ratio")
        else:
            notes.append(f"{amount(n_apart, 'pair')} left out ({first})" if n_apart else "")
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
    return pd.DataFrame(
        {
            "cell": cells["cell"].array,
            "baseline": cells["baseline"].array,
            "cost": pd.array([cost] * len(cells), dtype="str"),
            "n_pairs": n,
            "saved": saved,
            "low": ends[0],
            "high": ends[1],
            "cost_mean": means[0],
            "baseline_mean": means[1],
            "note": pd.array(list(note), dtype="str"),
        }
    )


_DIGITS = 11  # significant digits of a mean: further ones are rounding, and means of equal values must stay equal

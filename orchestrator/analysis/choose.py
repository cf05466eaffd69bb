"""How many layers do I freeze? The cell that saves most and is shown to lose no more than a tolerance.

A cell qualifies if "it loses more than the tolerance" is rejected, one-sided, on the differences to the baseline
paired by seed. Cells are tested in chains of one set-up, strategy and treatment of the embeddings, from the most
trainable parameters to the fewest, and a chain ends at its first failure: an order fixed before the sweep needs no
correction within a chain (W. Maurer, L. Hothorn and W. Lehmacher 1995), and it loses nothing as long as freezing more
costs more. Holm's would divide the error by all cells. The chains share the error equally, and one that is through
hands its part to the others (F. Bretz, W. Maurer, W. Brannath and M. Posch, "A graphical approach to sequentially
rejective multiple test procedures", Statistics in Medicine 28 (2009), 586-604). So the chance that any qualified cell
truly loses more is at most the error, whichever of them is then picked for its saving.

Each test is the larger p of Student's and Hall's, at half of its share of the error, so that with one chain a cell
passes where the lower end of the guarded interval at 1 - error, as the figures draw it, is within the tolerance. The
half is a margin for skewed differences, of which a few pairs say little. By simulation (`test_choose`), five pairs
and 5 %: 1.7 % of sweeps on normal differences, 5 % at a skewness of -1.7, 6 % with an exponential tail.

All that is for a number of seeds fixed beforehand. Who adds seeds and looks again each time takes the error each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from orchestrator.analysis.moments import Moments, guarded_above, hall_ends, moments, t_ends, wider
from orchestrator.analysis.paired import pair
from orchestrator.analysis.power import seeds_needed
from orchestrator.analysis.rows import COMPLETED, ROUNDING, Floats, numbers, require
from orchestrator.analysis.savings import savings
from orchestrator.analysis.stability import BROKEN
from orchestrator.analysis.wording import (
    NO_CANDIDATES,
    NO_PAIRS,
    chosen_sentence,
    left_out_sentence,
    open_sentence,
    ruled_out_sentence,
)

Saving = Literal["training_cost_s", "train_s", "trainable_params", "peak_memory_bytes", "energy_j"]


@dataclass(frozen=True)
class Recommendation:
    """The answer for one baseline.

    Attributes:
        decided: Whether a cell is recommended.
        cell: The recommended cell; None if not decided.
        sentence: The answer in words, with its figures.
        runner_up: The next best saving that is shown too; if not decided, the cell most worth further seeds; or None.
        further_seeds: About how many more seeds would decide for the largest saving still open (80 % power, if the true
            loss is the observed one); 0 if nothing larger is open, None if no number of seeds is likely to.
        candidates: One row a non-baseline cell, largest saving first: `cell`, `freeze`, `chain`, `n_pairs`, `mean`,
            `std` (of the differences), `low`, `high` (guarded interval at 1 - error), `p` (of losing more than the
            tolerance), `level` (what p had to reach; NaN if its chain ended before), `shown`, `broken` (trials
            without a score, see `stability.BROKEN`), `in_budget`, `saved`, `saved_low`, `saved_high`, `note` (of the
            saving), `further_seeds` (Int64).
    """

    decided: bool
    cell: str | None
    sentence: str
    runner_up: str | None
    further_seeds: int | None
    candidates: pd.DataFrame


class _Test(NamedTuple):
    """Outcome of the chains, a value a cell: the error each was tested at (NaN: not reached), and whether it passed."""

    level: Floats
    shown: np.ndarray


def recommend(
    frame: pd.DataFrame,
    tolerance: float,
    saving: Saving = "trainable_params",
    *,
    budget: Mapping[str, float] | None = None,
    error: float = 0.05,
    value: str = "score",
) -> Recommendation:
    """The cell with the largest saving whose loss is shown to be at most `tolerance` (in units of `value`).

    `budget` limits a cell's mean of columns of the frame, e.g. `{"trainable_params": 1e6}`.
    A column `n_layers` of the frame makes the sentence say "4 of 6 layers".

    Raises:
        ValueError: The frame holds several baselines or objective groups, a column is absent, a figure is out of range,
            or a cell has two completed trials of one seed.
    """
    _check(frame, tolerance, error)
    table = _candidates(frame, tolerance, saving, budget or {}, error, value)
    if table.empty:
        return Recommendation(False, None, NO_CANDIDATES, None, None, table)
    n_layers = int(frame["n_layers"].iloc[0]) if "n_layers" in frame.columns else None
    fit = table[table["in_budget"] & (table["saved"] > 0)]
    qualified, left_out = fit[fit["shown"]], left_out_sentence(table, saving)
    best = None if qualified.empty else qualified.iloc[0]
    # What saves more than the answer and has not been shown; all that fits, where there is no answer.
    larger = fit[~fit["shown"] & (fit["saved"] > (best["saved"] if best is not None else 0))]
    hopeful = larger[larger["further_seeds"].notna()]
    more = int(hopeful["further_seeds"].iloc[0]) if len(hopeful) else None
    if best is not None:
        runner_up = qualified["cell"].iloc[1] if len(qualified) > 1 else None
        next_one = hopeful.iloc[0] if len(hopeful) else None
        sentence = chosen_sentence(best, tolerance, error, saving, next_one, n_layers) + left_out
        return Recommendation(True, best["cell"], sentence, runner_up, 0 if larger.empty else more, table)
    if not table["n_pairs"].any():
        return Recommendation(False, None, NO_PAIRS, None, None, table)
    if hopeful.empty:
        sentence = ruled_out_sentence(fit, tolerance, saving, table["note"]) + (left_out if len(fit) else "")
        return Recommendation(False, None, sentence, None, None, table)
    sentence = open_sentence(hopeful.iloc[0], tolerance, n_layers) + left_out
    return Recommendation(False, None, sentence, hopeful["cell"].iloc[0], more, table)


def _check(frame: pd.DataFrame, tolerance: float, error: float) -> None:
    require(frame, ["cell", "baseline", "group", "setup", "strategy", "embeddings", "freeze", "trainable_params"])
    if not 0 <= tolerance < np.inf or not 0 < error < 0.5:
        raise ValueError(f"tolerance {tolerance:g} must be at least 0, error {error:g} between 0 and 0.5")
    for column in ("group", "baseline"):
        names = frame[column].unique()
        if len(names) > 1:
            raise ValueError(
                f"{len(names)} values of {column}: a recommendation needs one; choose a model and train size"
            )


def _candidates(
    frame: pd.DataFrame, tolerance: float, saving: Saving, budget: Mapping[str, float], error: float, value: str
) -> pd.DataFrame:
    """The rows of `Recommendation.candidates`."""
    pairs = pair(frame, value)
    cells = pairs.cells
    m = moments(pairs.rows["difference"].to_numpy(dtype=np.float64), pairs.codes, len(cells))
    first = frame.drop_duplicates("cell").set_index("cell").loc[cells["cell"]]
    chain = first.groupby(["setup", "strategy", "embeddings"], sort=False).ngroup().to_numpy()
    size = frame.groupby("cell")["trainable_params"].mean().loc[cells["cell"]].to_numpy(dtype=np.float64)
    low, high = wider(t_ends(m, 1 - error), hall_ends(m, 1 - error))
    p = _p_worse(m, tolerance)
    test = fixed_sequence(p, chain, np.lexsort((cells["cell"].to_numpy(dtype=object), -size)), error)
    table = pd.DataFrame(
        {
            "cell": cells["cell"],
            "freeze": first["freeze"].to_numpy(),
            "chain": chain,
            "n_pairs": cells["n_pairs"],
            "mean": m.mean,
            "std": m.std,
            "low": low,
            "high": high,
            "p": p,
            "level": test.level,
            "shown": test.shown,
            "broken": cells["cell"].map(_broken(frame)).fillna(0).astype(np.int64),
            "in_budget": _in_budget(frame, cells["cell"], budget),
        }
    )
    saved = savings(frame, [saving]).rename(columns={"low": "saved_low", "high": "saved_high"})
    table = table.merge(saved[["cell", "saved", "saved_low", "saved_high", "note"]], on="cell", how="left")
    table["further_seeds"] = _further(m, test, chain, size, tolerance, error)
    return table.sort_values("saved", ascending=False, na_position="last", kind="stable", ignore_index=True)


def _broken(frame: pd.DataFrame) -> pd.Series:
    """Number of trials by cell that diverged, ran out of memory or failed: what is left of such a cell is its luck."""
    if "state" not in frame.columns:
        return pd.Series(dtype=np.int64)
    return frame.loc[frame["state"].isin(BROKEN), "cell"].value_counts()


def _p_worse(m: Moments, tolerance: float) -> Floats:
    """P of "loses more than the tolerance"; NaN, which never qualifies, with one pair or without spread.

    Equal differences are a sign of a coarse metric (two hundred dev examples step by half a point), not of certainty: a
    t statistic without limit would let them pass.
    """
    return np.where(m.std > 0, guarded_above(m, -tolerance - ROUNDING), np.nan)


def fixed_sequence(p: Floats, chain: np.ndarray, order: np.ndarray, error: float) -> _Test:
    """Fixed-sequence tests within chains, error handed on from chains that are through.

    A test has half of its chain's share. `p` and `chain` (cells,), `order` the cells' indices in the order of
    testing. NaN fails.
    """
    level, shown = np.full(len(p), np.nan), np.zeros(len(p), dtype=bool)
    waiting = {int(name): [int(i) for i in order if chain[i] == name] for name in np.unique(chain)}
    while waiting:
        share = error / 2 / len(waiting)
        through = [name for name, queue in waiting.items() if _walk(queue, p, share, level, shown)]
        if not through:
            break
        for name in through:
            del waiting[name]
    return _Test(level, shown)


def _walk(queue: list[int], p: Floats, share: float, level: Floats, shown: np.ndarray) -> bool:
    """Take passing cells off a chain's queue, noting them; whether none is left."""
    while queue:
        level[queue[0]] = share
        if not p[queue[0]] <= share:  # NaN too
            return False
        shown[queue.pop(0)] = True
    return True


def _further(
    m: Moments, test: _Test, chain: np.ndarray, size: Floats, tolerance: float, error: float
) -> pd.api.extensions.ExtensionArray:
    """Seeds until a cell, and those before it in its chain, are likely to pass; NA where one of them loses too much."""
    tested = np.where(np.isfinite(test.level), test.level, error / 2 / max(len(np.unique(chain)), 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(m.std > 0, (m.mean + tolerance) / m.std, np.nan)
    own = np.maximum(seeds_needed(effect, tested, sides=1) - m.n, 1)
    own = np.where(test.shown, 0.0, own)
    before = (chain[:, None] == chain) & (size >= size[:, None])  # (cell, those tested no later)
    need = np.where(before, own, 0.0).max(axis=1, initial=0.0)
    return pd.array(np.where(np.isfinite(need), need, np.nan), dtype="Float64").astype("Int64")


def _in_budget(frame: pd.DataFrame, cells: pd.Series, budget: Mapping[str, float]) -> np.ndarray:
    """Whether the mean of every limited column is known and within its limit."""
    require(frame, list(budget))
    within = np.ones(len(cells), dtype=bool)
    for column, limit in budget.items():
        rows = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
        means = pd.Series(numbers(rows, column)).groupby(rows["cell"].to_numpy()).mean()
        within &= (cells.map(means) <= limit).to_numpy(dtype=bool)
    return within

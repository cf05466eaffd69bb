"""How many layers do I freeze? The setting that saves most and is shown to lose no more than a tolerance.

A setting qualifies if the upper end of its loss (`losses`, over seeds and sentences) is within the tolerance. Settings
are tested in chains of one set-up, strategy and treatment of the embeddings, from the most trainable parameters to the
fewest, and a chain ends at its first failure: an order fixed before the sweep needs no correction within a chain (W.
Maurer, L. Hothorn and W. Lehmacher 1995), and it loses nothing as long as freezing more costs more. Correcting for all
settings would divide the error by their number. The chains share the error equally, and one that is through hands its
part to the others (F. Bretz, W. Maurer, W. Brannath and M. Posch, "A graphical approach to sequentially rejective
multiple test procedures", Statistics in Medicine 28 (2009), 586-604). So the chance that any qualified setting truly
loses more is at most the error, whichever of them is then picked for its saving, and whoever adds seeds and looks again
keeps it (`looks`). A test has half of its share of the error: the interval that is drawn is two-sided.

`make calibration` measures what this holds, from stores to answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from orchestrator.analysis.froze import froze_by
from orchestrator.analysis.further import further
from orchestrator.analysis.looks import PlannedLooks, tails
from orchestrator.analysis.losses import Losses, losses, planned_looks
from orchestrator.analysis.rows import COMPLETED, Floats, numbers, require
from orchestrator.analysis.savings import savings
from orchestrator.analysis.stability import BROKEN
from orchestrator.analysis.two_way import DECIDING, Estimate, ends, verdict
from orchestrator.analysis.wording import Asked, answer_sentence
from trials.freeze.strategies import is_from_below, is_nested

NOT_ON_TEST = "the test split is shown once and selects nothing; choose on dev"
Outcome = Literal["freeze", "freeze nothing", "not decided"]


@dataclass(frozen=True)
class Recommendation:
    """The answer for one baseline.

    Attributes:
        outcome: Whether a setting is recommended, all are shown to lose too much, or neither is shown yet.
        cell: The recommended setting; None if there is none.
        sentence: The answer in words, with its figures.
        runner_up: The next best saving that qualifies too; if not decided, the setting that it takes least to decide;
            or None.
        further_seeds: About how many more seeds would decide for the largest saving still open (80 % power, if the true
            loss is the observed one); 0 if nothing larger is open, None if no number of seeds is likely to.
        further_sentences: About how many more dev sentences would, with the present seeds; likewise.
        looks: When the sweep is looked at; the answer holds at all of these looks.
        candidates: One row a setting but the baseline, largest saving first: `cell`, `freeze`, `chain`, `n_pairs`,
            `n_run`, `n_baseline` (the baseline's completed trials), `n_sentences` (Int64), `loss` (mean), `median`,
            `low`, `high` (of this setting alone at one look, at 1 - error), `low_decides`, `high_decides` (those
            that it was tested by; NaN if its chain ended before),
            `tested`, `shown`, `verdict` (see `two_way.verdict`), `collapsed`, `baseline_collapsed`,
            `collapses` (a sentence), `froze` (in words, see `froze`), `broken` (trials without a score), `in_budget`,
            `saved`, `saved_low`, `saved_high`, `note` (of the saving), `further_seeds`, `further_sentences`,
            `sentences_with_all_seeds` (Int64, see `further.Further`). Losses are in units of the score, positive where
            the setting is worse.
    """

    outcome: Outcome
    cell: str | None
    sentence: str
    runner_up: str | None
    further_seeds: int | None
    further_sentences: int | None
    looks: PlannedLooks
    candidates: pd.DataFrame

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """The row of `candidates` that is recommended; None if there is none."""
        rows = self.candidates[self.candidates["cell"] == self.cell]
        return None if rows.empty else rows.iloc[0].to_dict()

    @property
    def subject(self) -> Mapping[str, Any] | None:
        """The row of `candidates` that the answer speaks of; None if no pair of runs has ended.

        The recommended setting, else the one nearest to a decision, else the one that loses least of those shown to
        lose too much.
        """
        if self.chosen is not None:
            return self.chosen
        table = self.candidates
        if self.runner_up is not None:
            table = table[table["cell"] == self.runner_up]
        elif self.outcome == "freeze nothing":
            table = table[table["tested"] & ~table["shown"]]
        table = table[table["loss"].notna()].sort_values("loss")
        return None if table.empty else {str(key): value for key, value in table.iloc[0].to_dict().items()}


class _Tests(NamedTuple):
    """Outcome of the chains, a value a setting; NaN where a chain ended before.

    Attributes:
        tail: The chance beyond the end that the setting was tested at.
        low, high: Its ends there.
    """

    tail: Floats
    low: Floats
    high: Floats
    shown: np.ndarray


def recommend(
    frame: pd.DataFrame,
    tolerance: float,
    saving: str = "trainable_params",
    *,
    budget: Mapping[str, float] | None = None,
    error: float = 0.05,
    value: str = "score",
    most_seeds: int | None = None,
) -> Recommendation:
    """The setting with the largest saving whose loss is shown to be at most `tolerance` (in units of `value`).

    Args:
        frame: Trials with one baseline, as of `trial_frame`; with `n_layers` the sentence says "4 of 6 layers".
        saving: The cost that freezing should save, a key of `trial_frame.SAVED`.
        budget: Limits of a setting's mean of columns of the frame, e.g. `{"trainable_params": 1e6}`.
        error: Chance of recommending a setting that truly loses more.
        most_seeds: Seeds at the last look, if fixed beforehand; else as of `planned_looks`.

    Raises:
        ValueError: Asked for the test split, which selects nothing; the frame holds several baselines or objective
            groups, a column is absent, a figure is out of range, or a setting has two completed trials of one seed.
    """
    _check(frame, tolerance, error, value)
    looks = planned_looks(frame, most_seeds)
    table = _candidates(frame, tolerance, saving, budget or {}, error, value, looks)
    fit = table[table["in_budget"] & (table["saved"] > 0)]
    qualified = fit[fit["shown"]]
    best = None if qualified.empty else qualified.iloc[0]
    # What saves more than the answer and has not been shown; all that fits, where there is no answer.
    larger = fit[~fit["shown"] & (fit["saved"] > (best["saved"] if best is not None else 0))]
    nearest = _nearest(larger, tolerance)
    stopped = table[table["tested"] & ~table["shown"] & table["chain"].isin(fit["chain"])]  # what ended each chain
    all_lose = len(fit) > 0 and (stopped["verdict"] == "shown to lose more").all()
    outcome: Outcome = "freeze" if best is not None else "freeze nothing" if all_lose else "not decided"
    n_layers = int(frame["n_layers"].iloc[0]) if "n_layers" in frame.columns and len(frame) else None
    second = qualified.iloc[1] if len(qualified) > 1 else nearest if outcome == "not decided" else None
    return Recommendation(
        outcome=outcome,
        cell=None if best is None else str(best["cell"]),
        sentence=answer_sentence(table, fit, best, nearest, Asked(tolerance, saving, looks, n_layers, outcome)),
        runner_up=None if second is None else str(second["cell"]),
        further_seeds=_further(larger, nearest, "further_seeds", outcome),
        further_sentences=_further(larger, nearest, "further_sentences", outcome),
        looks=looks,
        candidates=table,
    )


def _nearest(larger: pd.DataFrame, tolerance: float) -> pd.Series | None:
    """The setting that the fewest further seeds would decide, one within the tolerance so far if there is any.

    None if none is likely to be decided.
    """
    known = larger[larger["further_seeds"].notna() & (larger["further_seeds"] > 0)]
    within = known[known["loss"] <= tolerance]
    known = within if len(within) else known[known["tested"]]
    return None if known.empty else known.loc[known["further_seeds"].astype(float).idxmin()]


def _further(larger: pd.DataFrame, nearest: pd.Series | None, column: str, outcome: Outcome) -> int | None:
    if larger.empty or outcome == "freeze nothing":
        return 0
    return None if nearest is None or pd.isna(nearest[column]) else int(nearest[column])


def _check(frame: pd.DataFrame, tolerance: float, error: float, value: str) -> None:
    if value.startswith("test"):
        raise ValueError(NOT_ON_TEST)
    if not tolerance >= 0 or not 0 < error < 1:
        raise ValueError(f"tolerance {tolerance:g} must be 0 or more, error {error:g} between 0 and 1")
    require(frame, ["cell", "baseline", "group", "setup", "freeze", "strategy", "embeddings", "trainable_params"])
    for column in ("baseline", "group"):
        names = frame[column].dropna().unique()
        if len(names) > 1:
            raise ValueError(
                f"{len(names)} values of {column}: a recommendation needs one; choose a model and train size"
            )


def _candidates(
    frame: pd.DataFrame,
    tolerance: float,
    saving: str,
    budget: Mapping[str, float],
    error: float,
    value: str,
    looks: PlannedLooks,
) -> pd.DataFrame:
    """The rows of `Recommendation.candidates`."""
    of_each = losses(frame, value)
    cells = of_each.cells
    first = frame.drop_duplicates("cell").set_index("cell").loc[cells["cell"]]
    chain = _chains(first)
    size = frame.groupby("cell")["trainable_params"].mean().loc[cells["cell"]].to_numpy(dtype=np.float64)
    order = np.lexsort((cells["cell"].to_numpy(dtype=object), -size))
    tests = _fixed_sequence(of_each, chain, order, tolerance, error, looks)
    changing = froze_by(frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame, "cell")
    low, high = ends(of_each.of, error / 2)
    table = cells[["cell", "n_pairs", "n_run", "n_baseline", "n_sentences", "median"]].assign(
        freeze=first["freeze"].to_numpy(),
        chain=chain,
        loss=of_each.of.mean,
        low=low,
        high=high,
        low_decides=tests.low,
        high_decides=tests.high,
        tested=np.isfinite(tests.tail),
        shown=tests.shown,
        verdict=[verdict(*each, tolerance) for each in zip(tests.low.tolist(), tests.high.tolist(), strict=True)],
        collapsed=[each.collapsed for each in of_each.own],
        baseline_collapsed=[each.collapsed for each in of_each.baseline],
        collapses=[each.sentence for each in of_each.own],
        froze=[changing.get(cell, "") for cell in cells["cell"]],
        broken=cells["cell"].map(_broken(frame)).fillna(0).astype(np.int64),
        in_budget=_in_budget(frame, cells["cell"], budget),
    )
    saved = savings(frame, [saving]).rename(columns={"low": "saved_low", "high": "saved_high"})
    table = table.merge(saved[["cell", "saved", "saved_low", "saved_high", "note"]], on="cell", how="left")
    table = table.assign(**_needed(of_each, tests, chain, size, tolerance, error, looks))
    return table.sort_values("saved", ascending=False, na_position="last", kind="stable", ignore_index=True)


_SOME_LAYERS = 12  # of an encoder of which nobody says how many it has


def _chains(cells: pd.DataFrame) -> np.ndarray:
    """The chain of each setting; the embeddings alone begin the chain of the first layers, all layers end it.

    Each freezing rule has a chain of its own: nobody knows before a sweep which of them will freeze more. So has each
    set of layers, and each depth of a strategy whose sets do not hold each other: that one set loses too much says
    nothing of a larger one which does not hold it.
    """
    depths = cells["n_layers"] if "n_layers" in cells.columns else pd.Series(_SOME_LAYERS, index=cells.index)
    pairs = list(zip(cells["strategy"], depths.astype(int), strict=True))
    nested = {pair: is_nested(*pair) for pair in dict.fromkeys(pairs)}
    lowest = {pair for pair in nested if is_from_below(*pair)}
    strategy = cells["strategy"].where(np.array([nested[pair] for pair in pairs], dtype=bool), cells["freeze"])
    strategy = strategy.mask(np.array([pair in lowest for pair in pairs], dtype=bool), "")
    keys = ["setup", "strategy", "embeddings"]
    chains: np.ndarray = cells.assign(strategy=strategy).groupby(keys, sort=False).ngroup().to_numpy()
    return chains


def _broken(frame: pd.DataFrame) -> pd.Series:
    """Number of trials by cell that diverged, ran out of memory or failed: what is left of such a cell is its luck."""
    if "state" not in frame.columns:
        return pd.Series(dtype=np.int64)
    return frame.loc[frame["state"].isin(BROKEN), "cell"].value_counts()


def _fixed_sequence(
    of_each: Losses, chain: np.ndarray, order: np.ndarray, tolerance: float, error: float, looks: PlannedLooks
) -> _Tests:
    """Fixed-sequence tests within chains, error handed on from chains that are through.

    A test has half of its chain's share. `chain` (settings,), `order` the settings' indices in the order of testing. A
    setting without an interval fails.
    """
    tail, low, high = np.full((3, len(chain)), np.nan)
    tests = _Tests(tail, low, high, np.zeros(len(chain), dtype=bool))
    waiting = {int(name): [int(i) for i in order if chain[i] == name] for name in np.unique(chain)}
    while waiting:
        share = error / 2 / len(waiting)
        at = ends(of_each.of, tails(of_each.at_looks, looks, share), DECIDING)
        through = [name for name, queue in waiting.items() if _walk(queue, *at, share, tolerance, tests)]
        if not through:
            break
        for name in through:
            del waiting[name]
    return tests


def _walk(queue: list[int], low: Floats, high: Floats, tail: float, tolerance: float, tests: _Tests) -> bool:
    """Take settings that qualify off a chain's queue, noting them; whether none is left."""
    while queue:
        at = queue[0]
        tests.tail[at], tests.low[at], tests.high[at] = tail, low[at], high[at]
        if verdict(float(low[at]), float(high[at]), tolerance) != "shown to lose at most the tolerance":
            return False
        tests.shown[queue.pop(0)] = True
    return True


def _needed(
    of_each: Losses,
    tests: _Tests,
    chain: np.ndarray,
    size: Floats,
    tolerance: float,
    error: float,
    looks: PlannedLooks,
) -> dict[str, pd.api.extensions.ExtensionArray]:
    """Seeds, and sentences, until a setting and those before it in its chain are likely to be decided.

    NA if never, or if one before it loses more than the tolerance so far, which ends the chain.
    """
    tail = np.where(np.isfinite(tests.tail), tests.tail, error / 2 / max(len(np.unique(chain)), 1))
    before = (chain[:, None] == chain) & (size >= size[:, None])  # (setting, those tested no later)
    own = np.full((3, len(chain)), np.nan)
    for row in range(len(chain)):
        of = Estimate(*(each[row] for each in of_each.of))
        if tests.shown[row]:
            own[:, row] = 0
        elif of.variance > 0:
            found = further(of, looks, tolerance, float(tail[row]))
            takes = (found.further_seeds, found.further_sentences, found.sentences_with_all_seeds)
            own[:, row] = [np.nan if n is None else n for n in takes]
    own[:, ((before & ~np.eye(len(chain), dtype=bool)) & (of_each.of.mean > tolerance)).any(axis=1)] = np.nan
    need = [np.where(before, each, 0.0).max(axis=1, initial=0.0) for each in own]
    names = ("further_seeds", "further_sentences", "sentences_with_all_seeds")
    return {name: _counts(each) for name, each in zip(names, need, strict=True)}


def _counts(values: Floats) -> pd.api.extensions.ExtensionArray:
    return pd.array(np.where(np.isfinite(values), values, np.nan), dtype="Float64").astype("Int64")


def _in_budget(frame: pd.DataFrame, cells: pd.Series, budget: Mapping[str, float]) -> np.ndarray:
    """Whether the mean of every limited column is known and within its limit."""
    require(frame, list(budget))
    within = np.ones(len(cells), dtype=bool)
    for column, limit in budget.items():
        rows = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
        means = pd.Series(numbers(rows, column)).groupby(rows["cell"].to_numpy()).mean()
        within &= (cells.map(means) <= limit).to_numpy(dtype=bool)
    return within

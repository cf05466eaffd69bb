"""What a sweep has decided so far: one interval for the loss of each setting, and all that is read off it.

A freeze is recommended for what it saves, if it loses no more than the tolerance. So a setting qualifies if

- it saves at least the plan's `min_saving` of the cost that the person cares for,
- the upper end of its loss, over seeds and sentences, is within the tolerance (`simultaneous`: at most 5 % of sweeps
  show any such loss where it is truly larger, at however many looks),
- it does not collapse more often than its baseline, as far as can be seen, and all of its runs together, collapsed ones
  included, pass too (`collapse`),

and the one that saves most is recommended. If the baseline itself has not learned the task, nothing is. That "freezing
more costs no less" is assumed in one place: where a setting is shown to lose too much, so are those that freeze all
that it freezes and more.

`make calibration` measures what this holds, from stores to answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.collapse import Collapses, collapses, excess_p
from orchestrator.analysis.decision_plan import DecisionPlan, PlannedLooks
from orchestrator.analysis.froze import froze_by
from orchestrator.analysis.further import further
from orchestrator.analysis.layer_strip import FrozenParts, frozen_parts
from orchestrator.analysis.losses import Losses, losses
from orchestrator.analysis.rows import COMPLETED, ROUNDING, Floats, numbers, require
from orchestrator.analysis.savings import COUNTED, default_saving, savings
from orchestrator.analysis.simultaneous import Simultaneous, deciding_ends, simultaneous
from orchestrator.analysis.stability import BROKEN
from orchestrator.analysis.two_way import Estimate, interval, verdict
from orchestrator.config.quantities import counted

NOT_ON_TEST = "the test split is shown once and selects nothing; choose on dev"
POINTS = 100.0  # of a score of 1
NO_DIFFERENCE = "no pair differs"
Outcome = Literal["freeze", "freeze nothing", "not worth it", "not decided", "not learned"]
Difference = Literal["worse", "better", "no difference shown", "too few to decide"]
Bools = npt.NDArray[np.bool_]


class TradeOff(NamedTuple):
    """What a tolerance buys.

    Attributes:
        tolerance: The smallest one, in points, at which this setting is recommended with the data at hand.
        cell, freeze: Its id and label.
        saved: Share of the plan's cost.
        loss: Mean loss in points.
    """

    tolerance: float
    cell: str
    freeze: str
    saved: float
    loss: float


@dataclass(frozen=True)
class Baseline:
    """What the baseline has learned.

    Attributes:
        score: Mean over its completed runs, 0..1; NaN without any.
        constant: Score of the best constant prediction; NaN if it was not recorded.
        has_learned: Whether its score is shown to be above that; True where nothing is known.
    """

    score: float
    constant: float
    runs: Collapses
    has_learned: bool


@dataclass(frozen=True)
class Decided:
    """The decisions of one question: the settings that share a baseline.

    Attributes:
        cost: What freezing should save, a key of `trial_frame.SAVED`.
        looks: When losses are looked at; the intervals hold at all of these.
        n_layers: Encoder layers; None if unknown.
        tail: Chance beyond each end that every setting was given, before looks.
        method: How the intervals of several settings hold together, in words; empty for a single one.
        table: One row a setting but the baseline, in order of first appearance. Losses are in units of the score
            (0..1), positive where the setting is worse than the baseline.

            Of its loss: `cell`, `baseline`, `group`, `freeze`, `n_pairs` (pairs that the interval rests on), `n_run`
            (pairs, collapsed ones included), `n_baseline` (the baseline's completed trials), `n_sentences` (Int64, NA
            where it is over seeds alone), `n_documents` (Int64, NA where unknown), `loss` (mean), `median`, `std` (over
            seeds), `low`, `high` (**the** interval; NaN where there is none), `why_none` (why; else empty),
            `so_far` (loss of each seed, a tuple).

            Read off the interval: `verdict` (at the plan's tolerance, see `two_way.Verdict`), `difference`
            (`Difference`: of the baseline at all), `qualifies`, `loses_more` (shown itself, or by one that freezes
            less).

            Of collapses: `collapsed`, `runs`, `possible` (bound on their share), `baseline_collapsed`,
            `baseline_runs`, `collapses` (a sentence), `excess_p` (of Fisher's test), `loss_all`, `high_all`
            (mean loss over all runs, and its upper end), `barred` (why collapses bar it; else empty),
            `broken` (trials without a score).

            Of savings: `saved`, `saved_low`, `saved_high` (shares of the plan's cost), `note`, `worth_having` (whether
            it saves `min_saving`; unknown counts as no), `in_budget`, `froze` (in words).

            Of what is missing: `further_seeds`, `further_sentences`, `sentences_with_all_seeds` (Int64, see
            `further.Further`).
    """

    plan: DecisionPlan
    cost: str
    looks: PlannedLooks
    n_layers: int | None
    tail: float
    method: str
    baseline: Baseline
    table: pd.DataFrame
    estimate: Estimate

    def within(self, tolerance: float) -> Decided:
        """The decisions at another tolerance, in points; the intervals stay."""
        plan = replace(self.plan, tolerance=tolerance)
        return replace(self, plan=plan, table=_judged(self.table, self.estimate, self.tail, self.looks, plan))

    @cached_property
    def trade_offs(self) -> tuple[TradeOff, ...]:
        """What each tolerance buys, the smallest first: each setting that no other beats in both."""
        table = self.table
        needed = np.maximum(np.maximum(table["high"], table["high_all"]), 0.0)
        can = table["worth_having"] & table["in_budget"] & needed.notna() & ~(table["excess_p"] <= self.plan.error)
        found: list[TradeOff] = []
        if not self.baseline.has_learned:
            return ()
        rows = table.assign(needed=needed)[can].sort_values(["needed", "saved"], ascending=[True, False])
        for row in rows.to_dict("records"):
            if not found or row["saved"] > found[-1].saved + ROUNDING:
                limit = POINTS * row["needed"]
                if limit >= POINTS:
                    break  # that tolerates any loss
                found.append(TradeOff(limit, row["cell"], row["freeze"], row["saved"], POINTS * row["loss"]))
        return tuple(found)

    @property
    def candidates(self) -> pd.DataFrame:
        """The settings worth having, the largest saving first."""
        table = self.table[self.table["worth_having"] & self.table["in_budget"]]
        return table.sort_values("saved", ascending=False, kind="stable")

    @property
    def outcome(self) -> Outcome:
        """Whether a setting is recommended, and if not, why."""
        table, candidates = self.table, self.candidates
        if not self.baseline.has_learned:
            return "not learned"
        if candidates["qualifies"].any():
            return "freeze"
        open_ones = table["in_budget"] & (table["worth_having"] | (table["saved"].isna() & (table["n_run"] == 0)))
        refused = table["loses_more"] | (table["excess_p"] <= self.plan.error)
        if not (table["n_run"] > 0).any() or (open_ones & ~refused).any():
            return "not decided"
        if not (table["in_budget"] & table["saved"].notna()).any():
            return "not decided"
        small = table["in_budget"] & ~table["worth_having"] & (table["saved"] > 0)
        within = table["verdict"] == "shown to lose at most the tolerance"
        return "not worth it" if candidates.empty or (small & within).any() else "freeze nothing"

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The row that is recommended; None if there is none."""
        return _first(self.candidates[self.candidates["qualifies"]]) if self.outcome == "freeze" else None

    @property
    def open(self) -> pd.DataFrame:
        """Candidates that save more than the recommended one and are neither shown nor refused."""
        candidates, best = self.candidates, self.chosen
        still = candidates[~candidates["qualifies"] & ~candidates["loses_more"] & (candidates["barred"] == "")]
        return still if best is None else still[still["saved"] > best["saved"]]

    @property
    def nearest(self) -> dict[str, Any] | None:
        """The open candidate that the fewest further seeds would decide, one within the tolerance so far if any is."""
        known = self.open[self.open["further_seeds"].notna() & (self.open["further_seeds"] > 0)]
        within = known[known["loss"] <= self.plan.tolerance / POINTS + ROUNDING]
        known = within if len(within) else known
        return None if known.empty else _row(known.loc[known["further_seeds"].astype(float).idxmin()])

    @property
    def alike(self) -> dict[str, Any] | None:
        """The largest saving still open that no seed tells from the baseline; None where another may be shown within
        the tolerance sooner.
        """
        nearest = self.nearest
        if nearest is not None and nearest["loss"] <= self.plan.tolerance / POINTS + ROUNDING:
            return None
        return _first(self.open[self.open["why_none"] == NO_DIFFERENCE])

    @property
    def runner_up(self) -> dict[str, Any] | None:
        """The second best that qualifies; if nothing is decided, the nearest to a decision."""
        if self.outcome == "not decided":
            return self.nearest
        qualified = self.candidates[self.candidates["qualifies"]]
        return _first(qualified[1:]) if self.outcome == "freeze" else None

    @property
    def subject(self) -> dict[str, Any] | None:
        """The row that the answer speaks of; None if no pair of runs has ended.

        The recommended setting, else the nearest to a decision, else the one that loses least: of the candidates, if
        one has pairs.
        """
        chosen = self.chosen or (self.alike or self.nearest if self.outcome == "not decided" else None)
        if chosen is not None:
            return chosen
        known = self.table[self.table["loss"].notna()]
        candidates = known[known["worth_having"] & known["in_budget"]]
        return _first((candidates if len(candidates) else known).sort_values("loss", kind="stable"))

    def takes(self, what: str) -> int | None:
        """`further_seeds` or `further_sentences` of the nearest; 0 if nothing is open, None if none would do."""
        if self.open.empty or self.outcome not in ("freeze", "not decided"):
            return 0
        row = self.nearest if self.alike is None else None
        return None if row is None or pd.isna(row[what]) else int(row[what])


def _row(row: pd.Series) -> dict[str, Any]:
    return {str(key): value for key, value in row.to_dict().items()}


def _first(table: pd.DataFrame) -> dict[str, Any] | None:
    return None if table.empty else _row(table.iloc[0])


def decide(
    frame: pd.DataFrame,
    plan: DecisionPlan | None = None,
    *,
    budget: Mapping[str, float] | None = None,
    value: str = "score",
) -> Decided:
    """The decisions of one question.

    Args:
        frame: Trials with one baseline and objective group, as of `trial_frame`, planned ones too.
        plan: None for the defaults.
        budget: Limits of a setting's mean of columns of the frame, e.g. `{"trainable_params": 1e6}`.
        value: Column of the score.

    Raises:
        ValueError: Asked for the test split, which selects nothing; the frame holds several baselines or objective
            groups, a column is absent, or a setting has two completed trials of one seed.
    """
    _check(frame, value)
    return _decide(frame, plan or DecisionPlan(), budget or {}, value)


def loss_table(frame: pd.DataFrame, value: str = "score", plan: DecisionPlan | None = None) -> pd.DataFrame:
    """The losses of all settings of a frame with the intervals that decide, of every split and of any score.

    One row a setting, question by question (settings that share a baseline and a set-up; a frame has to hold all
    settings of each, as their intervals hold together): the columns of `Decided.table` that are of losses, `difference`
    and `method`.

    Raises:
        ValueError: A column is absent, or a setting has two completed trials of one seed.
    """
    require(frame, ["cell", "baseline", "group", value])
    keys = [name for name in ("group", "baseline", "setup") if name in frame.columns]
    frozen = frame[frame["cell"] != frame["baseline"]]
    tables = []
    for key, rows in frozen.groupby(keys, sort=False):
        mine = frame[frame.index.isin(rows.index) | (frame["cell"] == key[keys.index("baseline")])]
        of = _decide(mine, plan or DecisionPlan(), {}, value)
        tables.append(of.table.assign(method=of.method))
    if not tables:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in OF_LOSSES})
    order = {cell: place for place, cell in enumerate(frozen["cell"].unique())}
    table = pd.concat(tables, ignore_index=True)[list(OF_LOSSES)]
    return table.sort_values("cell", key=lambda cells: cells.map(order), kind="stable", ignore_index=True)


OF_LOSSES = (
    "cell", "baseline", "group", "n_pairs", "n_run", "unpaired", "n_sentences", "n_documents", "loss", "median",
    "std", "low", "high", "why_none", "so_far", "difference", "method",
)  # fmt: skip


def _decide(frame: pd.DataFrame, plan: DecisionPlan, budget: Mapping[str, float], value: str) -> Decided:
    of_each = losses(frame, value)
    cells, n_run = of_each.cells, numbers(of_each.cells, "n_run")
    looks = plan.looks(planned_seeds(frame))
    cost = plan.cost or default_saving(frame)
    table = _losses_table(of_each, frame).assign(**_of_collapses(of_each))
    table = table.merge(_savings_table(frame, cost, table["cell"]), on="cell", how="left")
    worth = _worth_having(table, cost, plan.min_saving)
    family = worth | table["saved"].isna().to_numpy(dtype=bool)
    found = _intervals(of_each, looks, plan.error, n_run, family)
    _, high_all = deciding_ends(of_each.of_all, looks, found.tail, n_run)
    done = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
    changing = froze_by(done, "cell")
    table = table.assign(
        low=found.low,
        high=found.high,
        loss_all=of_each.of_all.mean,
        high_all=np.where(numbers(cells, "n_pairs") == n_run, found.high, high_all),
        worth_having=worth,
        in_budget=_in_budget(frame, table["cell"], budget),
        froze=[changing.get(cell, "") for cell in table["cell"]],
        broken=table["cell"].map(_broken(frame)).fillna(0).astype(np.int64),
    )
    table["why_none"] = [_why_no_interval(row) for row in table.to_dict("records")]
    n_layers = int(frame["n_layers"].iloc[0]) if "n_layers" in frame.columns and len(frame) else None
    table["parts"] = [frozen_parts(label, n_layers) if n_layers else None for label in table["freeze"]]
    return Decided(
        plan=plan,
        cost=cost,
        looks=looks,
        n_layers=n_layers,
        tail=found.tail,
        method=found.method,
        baseline=_baseline(done[done["cell"] == done["baseline"]], value),
        table=_judged(table, of_each.of, found.tail, looks, plan),
        estimate=of_each.of,
    )


def _intervals(of_each: Losses, looks: PlannedLooks, error: float, n_run: Floats, family: Bools) -> Simultaneous:
    if not of_each.values:
        return Simultaneous(np.empty(0), np.empty(0), error, "")
    return simultaneous(of_each.values, looks, error, n_run=n_run, family=family, sizes=of_each.sizes)


def _savings_table(frame: pd.DataFrame, cost: str, cells: pd.Series) -> pd.DataFrame:
    """What each setting saves; NaN where the frame has no costs."""
    names = {"low": "saved_low", "high": "saved_high"}
    if cost in frame.columns:
        return savings(frame, [cost]).rename(columns=names)[["cell", "saved", "saved_low", "saved_high", "note"]]
    return pd.DataFrame(
        {"cell": cells, "saved": np.nan, "saved_low": np.nan, "saved_high": np.nan, "note": "not recorded"}
    )


def planned_seeds(frame: pd.DataFrame) -> int:
    """The most trials of a setting, run or not."""
    return int(frame.groupby("cell").size().max()) if len(frame) else 0


def _check(frame: pd.DataFrame, value: str) -> None:
    if value.startswith("test"):
        raise ValueError(NOT_ON_TEST)
    require(frame, ["cell", "baseline", "group", "freeze", "trainable_params"])
    for column in ("baseline", "group"):
        names = frame[column].dropna().unique()
        if len(names) > 1:
            raise ValueError(f"{len(names)} values of {column}: a decision needs one; choose a model and train size")


def _losses_table(of_each: Losses, frame: pd.DataFrame) -> pd.DataFrame:
    cells, first = of_each.cells, frame.drop_duplicates("cell").set_index("cell")
    labels = first["freeze"] if "freeze" in frame.columns else pd.Series("", index=first.index)
    by_seed = [each.mean(axis=1) for each in of_each.values]
    columns = [
        "cell",
        "baseline",
        "group",
        "n_pairs",
        "n_run",
        "unpaired",
        "n_baseline",
        "n_sentences",
        "n_documents",
        "median",
    ]
    return cells[columns].assign(
        freeze=labels.loc[cells["cell"]].to_numpy(),
        loss=of_each.of.mean,
        variance=of_each.of.variance,
        std=[each.std(ddof=1) if len(each) > 1 else np.nan for each in by_seed],
        so_far=pd.Series([tuple(each.tolist()) for each in by_seed], dtype=object),
    )


def _of_collapses(of_each: Losses) -> dict[str, list[Any]]:
    own, baseline = of_each.own, of_each.baseline
    return {
        "collapsed": [each.collapsed for each in own],
        "runs": [each.runs for each in own],
        "possible": [each.possible for each in own],
        "baseline_collapsed": [each.collapsed for each in baseline],
        "baseline_runs": [each.runs for each in baseline],
        "collapses": [each.sentence for each in own],
        "excess_p": [excess_p(*each) for each in zip(own, baseline, strict=True)],
    }


def _worth_having(table: pd.DataFrame, cost: str, least: float) -> Bools:
    """What is measured, as time is, must be shown to be saved at all as well."""
    saved, low = numbers(table, "saved"), numbers(table, "saved_low")
    worth: Bools = (saved >= least - ROUNDING) & (saved > 0)
    return worth if cost in COUNTED else worth & (low > 0)


def _why_no_interval(row: Mapping[str, Any]) -> str:
    """Empty where there is an interval."""
    if np.isfinite(row["high"]):
        return ""
    n = int(row["n_pairs"])
    if not n:
        return "every pair has a collapsed run" if row["n_run"] else "no pairs" if row["n_baseline"] else "no baseline"
    if n > 1 and not row["variance"] > 0:
        return NO_DIFFERENCE if row["loss"] == 0 else f"all {counted(n, 'pair')} differ by the same"
    return f"{counted(n, 'seed')} {'is' if n == 1 else 'are'} too few for an interval"


def _baseline(done: pd.DataFrame, value: str) -> Baseline:
    """From the baseline's completed trials: half of its runs collapsed, or it is not shown above a constant one."""
    scores = numbers(done, value)
    constant = numbers(done, "constant_score") if "constant_score" in done.columns else np.full(len(done), np.nan)
    flags = numbers(done, "collapsed") if "collapsed" in done.columns else np.full(len(done), np.nan)
    runs = collapses(flags[np.isfinite(flags)] == 1)
    usable = np.isfinite(scores) & np.isfinite(constant)
    learned = not runs.runs or runs.is_rare
    gains: Floats = scores[usable] - constant[usable]
    if learned and len(gains) > 1 and value == "score":
        learned = _is_above_zero(gains, done["sentences"][usable] if "sentences" in done.columns else None)
    means = [float(np.nanmean(each)) if np.isfinite(each).any() else np.nan for each in (scores, constant)]
    return Baseline(means[0], means[1], runs, learned)


def _is_above_zero(gains: Floats, sentences: pd.Series | None) -> bool:
    """Whether a mean gain is shown to be above 0, over runs and, where their contributions are known, sentences."""
    values = gains
    if sentences is not None:
        arrays = sentences.tolist()
        if all(each is not None and len(each) == len(arrays[0]) > 1 for each in arrays):
            stack = np.stack(arrays).astype(np.float64)
            values = stack - stack.mean(axis=1, keepdims=True) + gains[:, None]
    if np.ptp(gains) <= ROUNDING and values.ndim == 1:
        return bool(gains[0] > 0)
    found = interval(-values, 0.9)
    return bool(found.mean < 0) if found.high is None else found.high < 0


def _judged(table: pd.DataFrame, of: Estimate, tail: float, looks: PlannedLooks, plan: DecisionPlan) -> pd.DataFrame:
    """The table with all that depends on the tolerance."""
    limit = plan.tolerance / POINTS
    pairs = list(zip(table["low"].tolist(), table["high"].tolist(), strict=True))
    verdicts = pd.Series([verdict(*each, limit) for each in pairs], index=table.index, dtype=object)
    barred = pd.Series([_barred(row, limit, plan.error) for row in table.to_dict("records")], index=table.index)
    within, more = verdicts == "shown to lose at most the tolerance", verdicts == "shown to lose more"
    return table.assign(
        verdict=verdicts,
        difference=[_difference(*each) for each in pairs],
        barred=barred.astype(object),
        qualifies=within & (barred == "") & table["worth_having"] & table["in_budget"],
        loses_more=more | _freezes_more(table["parts"].tolist(), more.to_numpy(dtype=bool)),
        **_needed(of, tail, looks, limit, within),
    )


def _difference(low: float, high: float) -> Difference:
    if not np.isfinite(high):
        return "too few to decide"
    return "worse" if low > ROUNDING else "better" if high < -ROUNDING else "no difference shown"


def _barred(row: Mapping[str, Any], limit: float, error: float) -> str:
    """Why collapses bar a setting from being recommended; empty if they do not."""
    if not row["collapsed"]:
        return ""
    if row["excess_p"] <= error:
        return "it collapses more often than the baseline"
    share = row["collapsed"] * row["baseline_runs"] > row["baseline_collapsed"] * row["runs"]
    passes = row["high_all"] if share else row["loss_all"]
    return "" if passes <= limit + ROUNDING else "its mean over all runs is not within the tolerance"


def _freezes_more(parts: list[FrozenParts | None], more: Bools) -> Bools:
    """Which settings freeze all that one shown to lose more freezes."""
    losing = [each for each, shown in zip(parts, more, strict=True) if shown and each is not None]
    return np.array([each is not None and any(_holds(each, less) for less in losing) for each in parts], dtype=bool)


def _holds(more: FrozenParts, less: FrozenParts) -> bool:
    return less.layers <= more.layers and less.embeddings <= more.embeddings


def _needed(
    of: Estimate, tail: float, looks: PlannedLooks, limit: float, within: pd.Series
) -> dict[str, pd.api.extensions.ExtensionArray]:
    """What decides each setting; NA if nothing will, or if nothing is known of it."""
    own = np.full((3, len(within)), np.nan)
    for row, is_within in enumerate(within):
        each = Estimate(*(values[row] for values in of))
        if is_within:
            own[:, row] = 0
        elif each.variance > 0:
            found = further(each, looks, limit, tail)
            takes = (found.further_seeds, found.further_sentences, found.sentences_with_all_seeds)
            own[:, row] = [np.nan if n is None else n for n in takes]
    names = ("further_seeds", "further_sentences", "sentences_with_all_seeds")
    return {name: pd.array(each, dtype="Float64").astype("Int64") for name, each in zip(names, own, strict=True)}


def _broken(frame: pd.DataFrame) -> pd.Series:
    """Number of trials by cell that diverged, ran out of memory or failed: what is left of such a cell is its luck."""
    if "state" not in frame.columns:
        return pd.Series(dtype=np.int64)
    return frame.loc[frame["state"].isin(BROKEN), "cell"].value_counts()


def _in_budget(frame: pd.DataFrame, cells: pd.Series, budget: Mapping[str, float]) -> Bools:
    """Whether the mean of every limited column is known and within its limit."""
    require(frame, list(budget))
    within = np.ones(len(cells), dtype=bool)
    for column, limit in budget.items():
        rows = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
        means = pd.Series(numbers(rows, column)).groupby(rows["cell"].to_numpy()).mean()
        within &= (cells.map(means) <= limit).to_numpy(dtype=bool)
    return within

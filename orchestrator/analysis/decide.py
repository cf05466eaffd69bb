"""Decide what to freeze, from one interval for the loss of each setting.

A freeze is recommended for what it saves, if it loses no more than the tolerance. So a setting qualifies if

- it saves at least the plan's `min_saving` of the cost that the user cares about,
- the upper end of the interval of its loss, over seeds and sentences, is within the tolerance (`looks`: in at most 5 %
  of sweeps is a truly larger loss shown to be within it, at however many looks),
- it does not collapse significantly more often than its baseline, and the mean over all of its runs, collapsed ones
  included, passes too (`losses`),

and of those that qualify the one that saves most is recommended. The verdict on a setting follows from its own interval
alone. If the baseline itself has not learned the task, there is neither an interval nor a recommendation. An interval
is cut to the possible range of the score; if it spans more than half of that range, the reason why stands in its place.

`make calibration` measures how often such decisions are wrong, from simulated stores to answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.decision_plan import FIRST_LOOK, DecisionPlan, PlannedLooks
from orchestrator.analysis.freeze_names import freeze_changes_by
from orchestrator.analysis.further_seeds import Further, data_to_decide
from orchestrator.analysis.looks import Simultaneous, deciding_ends, joint_intervals
from orchestrator.analysis.losses import BROKEN, Collapses, Losses, collapses, excess_p, losses
from orchestrator.analysis.rows import COMPLETED, ROUNDING, Floats, numbers, records, require
from orchestrator.analysis.savings import COUNTED, default_saving, savings
from orchestrator.analysis.two_way import BEYOND, WITHIN, Estimate, chance_within, interval, seed_means, verdict
from orchestrator.config.quantities import POINTS, amount
from trials.metrics.metric import METRICS
from trials.record import State
from trials.spec import FreezeSpec
from trials.tasks.task import unit_of

NOT_ON_TEST = "the test split is shown once and selects nothing; choose on dev"
NO_DIFFERENCE = "no pair differs"
NOTHING_KNOWN = "nothing is known yet, as the interval would span more than half of what the score can be"
Outcome = Literal["freeze", "freeze nothing", "not worth it", "not decided", "not learned"]
Difference = Literal["worse", "better", "no difference shown", "too few to decide"]
Bools = npt.NDArray[np.bool_]
_BARS = ["collapsed", "runs", "excess_p", "baseline_collapsed", "baseline_runs", "high_all", "loss_all"]
_MISSING = tuple(field.name for field in fields(Further))


class TradeOff(NamedTuple):
    """A setting that a larger tolerance would make the recommendation.

    Attributes:
        tolerance: The smallest tolerance, in points, at which the trials so far recommend this setting.
        cell, freeze: Its id, and what it freezes.
        saved: The share of the plan's cost that it saves.
        loss: Its mean loss in points.
    """

    tolerance: float
    cell: str
    freeze: FreezeSpec
    saved: float
    loss: float


@dataclass(frozen=True)
class Baseline:
    """What the baseline, which freezes nothing, has learned.

    Attributes:
        score: Its mean score over completed runs, in points; NaN if there are none.
        constant: The mean score of the best constant prediction, in points; NaN if it was not recorded.
        has_learned: Whether its score is shown to be above `constant`; True if that cannot be told.
        diverged: How many of its trials ended because their loss was not finite, and how many trials it has.
    """

    score: float
    constant: float
    runs: Collapses
    has_learned: bool
    diverged: tuple[int, int] = (0, 0)

    @property
    def gain(self) -> float:
        """Points above the constant prediction; a loss of as many gives up everything that was learned. Infinite if
        either score is unknown.
        """
        gain = self.score - self.constant
        return gain if np.isfinite(gain) else np.inf

    def is_vacuous(self, tolerance: float) -> bool:
        """Whether the baseline learned nothing, or this tolerance (points) gives up all that it learned."""
        return not self.has_learned or tolerance >= self.gain - ROUNDING


@dataclass(frozen=True)
class Decision:
    """The decisions of one question: the settings that share a baseline.

    Attributes:
        cost: The cost that freezing should save, a key of `record.SAVED`.
        looks: The seed counts at which losses are looked at; the intervals hold at all of them together.
        n_layers: Number of encoder layers; None if unknown.
        tail: Error probability beyond each end of a setting's interval, before it is spread over looks.
        method: How the intervals of several settings are made to hold jointly, in words; empty for a single one.
        table: One row per setting except the baseline, in order of first appearance. Losses are in points,
            positive if the setting is worse than the baseline.

            On its loss: `cell`, `baseline`, `group`, `freeze` (the label of `freeze_spec`), `freeze_spec`, `n_pairs`
            (pairs that the interval rests on), `n_run` (pairs, collapsed ones included), `n_baseline` (the baseline's
            completed trials), `n_sentences` (Int64, NA where it is over seeds alone), `n_documents` (Int64, NA where
            unknown), `n_folds` (Int64, NA without cross-validation), `loss` (mean), `median`, `std` (over seeds),
            `low`, `high` (**the** interval; NaN if there is none), `why_none` (the reason; else empty), `so_far` (the
            losses by seed, a tuple).

            Read off the interval: `verdict` (at the plan's tolerance, see `two_way.Verdict`), `difference` (from the
            baseline, see `Difference`), `qualifies`. Beside these, `chance`: if not decided, the probability that the
            loss is within the tolerance (`two_way.chance_within`; NaN otherwise), which decides nothing.

            On collapses: `collapsed`, `runs`, `possible` (upper bound on their share), `baseline_collapsed`,
            `baseline_runs`, `collapses` (a sentence), `excess_p` (p value of Fisher's test), `loss_all`, `high_all`
            (mean loss over all runs, and its upper end), `barred` (why collapses rule it out; else empty),
            `broken` (trials without a score).

            On savings: `saved`, `saved_low`, `saved_high` (shares of the plan's cost), `note`, `worth_having` (whether
            it saves `min_saving`; unknown counts as no), `in_budget`, `froze` (what a rule froze, in words).
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

    @cached_property
    def missing_data(self) -> pd.DataFrame:
        """How much more data would decide each row of `table`: `further_seeds`, `further_sentences`,
        `sentences_with_all_seeds` (Int64, see `further_seeds.Further`), NA if no amount would or it is unknown; and
        `seeds_share`, the seeds' share of the variance of the mean.

        It is computed on demand, as it takes as long as all other decisions together.
        """
        is_known = self.table["verdict"].isin((WITHIN, BEYOND)) | (not self.baseline.has_learned)
        counts = np.full((len(_MISSING), len(is_known)), np.nan)
        for row, is_one in enumerate(is_known):
            estimate = Estimate(*(values[row] for values in self.estimate))
            if is_one:  # decided: nothing more is needed
                counts[:, row] = 0
            elif estimate.variance > 0:
                n_run = int(self.table["n_run"].iloc[row])
                needed = data_to_decide(estimate, self.looks, self.plan.tolerance, self.tail, n_run=n_run)
                counts[:, row] = [np.nan if n is None else n for n in (getattr(needed, name) for name in _MISSING)]
        columns = {
            name: pd.array(values, dtype="Float64").astype("Int64")
            for name, values in zip(_MISSING, counts, strict=True)
        }
        with np.errstate(invalid="ignore", divide="ignore"):
            seeds_share = self.estimate.seeds / self.estimate.variance
        return pd.DataFrame(columns, index=self.table.index).assign(seeds_share=seeds_share)

    @cached_property
    def trade_offs(self) -> tuple[TradeOff, ...]:
        """What each tolerance buys, the smallest first: the settings that no other beats in both tolerance and saving,
        up to the tolerances that `_is_offered` allows.
        """
        return tuple(bought for bought in self._all_trade_offs if self._is_offered(bought))

    @property
    def n_beyond(self) -> int:
        """The number of settings that only larger tolerances than those of `trade_offs` allow."""
        return len(self._all_trade_offs) - len(self.trade_offs)

    def _is_offered(self, bought: TradeOff) -> bool:
        """Whether a trade-off is listed: its tolerance is below the baseline's gain over a constant prediction, at most
        three times the requested one and, unless it buys the deepest freeze, at most what that freeze loses.
        """
        requested = self.plan.tolerance
        if self.baseline.is_vacuous(bought.tolerance):
            return False
        if bought.tolerance <= requested + ROUNDING:
            return True
        deepest = self.candidates.iloc[0]
        is_known = bought.cell != deepest["cell"] and np.isfinite(deepest["loss"])
        return bool(
            bought.tolerance <= (3 * requested or POINTS) and not (is_known and bought.tolerance > deepest["loss"])
        )

    @cached_property
    def _all_trade_offs(self) -> tuple[TradeOff, ...]:
        if not self.baseline.has_learned:
            return ()
        bought: list[TradeOff] = []
        rows = self.candidates[self.candidates["needed"].notna() & ~(self.candidates["excess_p"] <= self.plan.error)]
        for row in records(rows.sort_values(["needed", "saved"], ascending=[True, False])):
            if not bought or row["saved"] > bought[-1].saved + ROUNDING:
                if row["needed"] >= POINTS:
                    break  # a tolerance of 100 points accepts any loss
                bought.append(TradeOff(row["needed"], row["cell"], row["freeze_spec"], row["saved"], row["loss"]))
        return tuple(bought)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Those of the table."""
        return records(self.table)

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """The rows `worth_having` and `in_budget`: most `saved` first, then least `needed` (the tolerance it takes)."""
        table = self.table[self.table["worth_having"] & self.table["in_budget"]]
        table = table.assign(needed=_tolerance_needed(table), rank=-(table["saved"] / ROUNDING).round() * ROUNDING)
        return table.sort_values(["rank", "needed"], kind="stable").drop(columns="rank")

    @cached_property
    def outcome(self) -> Outcome:
        """Whether a setting is recommended, and if not, why."""
        table, candidates = self.table, self.candidates
        if not self.baseline.has_learned:
            return "not learned"
        if candidates["qualifies"].any():
            return "freeze"
        if self.is_vacuous:
            return "not decided"
        # A setting is open if a later look may still recommend it; if no saving is measured, until it has run at all.
        open_ones = table["in_budget"] & (table["worth_having"] | (table["saved"].isna() & (table["n_run"] == 0)))
        refused = (table["verdict"] == BEYOND) | (table["excess_p"] <= self.plan.error)
        if not (table["n_run"] > 0).any() or (open_ones & ~refused).any():
            return "not decided"
        if not (table["in_budget"] & table["saved"].notna()).any():
            return "not decided"
        small = table["in_budget"] & ~table["worth_having"] & (table["saved"] > 0)
        within = table["verdict"] == WITHIN  # a small saving that is safe: the loss was not what ruled freezing out
        return "not worth it" if candidates.empty or (small & within).any() else "freeze nothing"

    @property
    def is_decided(self) -> bool:
        """Whether a setting is recommended, or it is shown that none will be."""
        return self.outcome not in ("not decided", "not learned")

    @property
    def is_vacuous(self) -> bool:
        """See `Baseline.is_vacuous`: nothing can be recommended, and no further trial changes that."""
        return self.baseline.is_vacuous(self.plan.tolerance)

    @cached_property
    def choice(self) -> dict[str, Any] | None:
        """The row that is recommended; None if there is none."""
        return _first(self.candidates[self.candidates["qualifies"]]) if self.outcome == "freeze" else None

    @cached_property
    def best_by_estimate(self) -> dict[str, Any] | None:
        """The candidate that saves most among those whose mean loss is within the tolerance, whatever its interval."""
        within = self.candidates["loss"] <= self.plan.tolerance + ROUNDING
        likely = self.candidates[within & (self.candidates["barred"] == "")]
        return None if self.is_vacuous else _first(likely)

    @cached_property
    def open_settings(self) -> pd.DataFrame:
        """The rows of `candidates` that save more than `choice` and are neither qualified nor ruled out yet."""
        candidates, best = self.candidates, self.choice
        still = candidates[~candidates["qualifies"] & (candidates["verdict"] != BEYOND) & (candidates["barred"] == "")]
        return still if best is None else still[still["saved"] > best["saved"]]

    @cached_property
    def nearest(self) -> dict[str, Any] | None:
        """The open candidate that the fewest further seeds would decide; means within the tolerance come first."""
        if self.open_settings.empty or self.is_vacuous:
            return None
        still = self.open_settings.join(self.missing_data)
        decidable = still[still["further_seeds"].notna() & (still["further_seeds"] > 0)]
        within = decidable[decidable["loss"] <= self.plan.tolerance + ROUNDING]
        decidable = within if len(within) else decidable  # a possible recommendation comes before a refusal
        return None if decidable.empty else _row(decidable.loc[decidable["further_seeds"].astype(float).idxmin()])

    @cached_property
    def twin(self) -> dict[str, Any] | None:
        """The open candidate that saves most among those that score as the baseline does in every seed; None if
        another one may be shown to be within the tolerance sooner.
        """
        nearest = self.nearest
        if self.is_vacuous or (nearest is not None and nearest["loss"] <= self.plan.tolerance + ROUNDING):
            return None
        return _first(self.open_settings[self.open_settings["why_none"] == NO_DIFFERENCE])

    @cached_property
    def runner_up(self) -> dict[str, Any] | None:
        """The second best setting that qualifies; if nothing is decided, the one that is nearest to a decision."""
        if self.outcome == "not decided":
            return self.nearest
        qualified = self.candidates[self.candidates["qualifies"]]
        return _first(qualified[1:]) if self.outcome == "freeze" else None

    @cached_property
    def subject(self) -> dict[str, Any] | None:
        """The row that the answer is about; None if no pair of runs has ended.

        This is the recommended setting; else the one nearest to a decision, by seeds or else by sentences; else the one
        that loses least, among the candidates if any of them has pairs.
        """
        chosen = self.choice or (self.twin or self.nearest if self.outcome == "not decided" else None)
        if chosen is not None:
            return chosen
        if self.outcome == "not decided" and not self.open_settings["high"].dropna().empty:
            still = self.open_settings[self.open_settings["high"].notna()].join(self.missing_data)
            return _first(still.sort_values(["further_sentences", "sentences_with_all_seeds", "loss"], kind="stable"))
        with_loss = self.table[self.table["loss"].notna()]
        candidates = with_loss[with_loss["worth_having"] & with_loss["in_budget"]]
        return _first((candidates if len(candidates) else with_loss).sort_values("loss", kind="stable"))

    @property
    def may_be_decided(self) -> bool:
        """Whether further seeds are likely to decide what is not decided, or the first look is still to come."""
        if self.data_for_nearest("further_seeds"):
            return True
        if self.is_vacuous:
            return False
        if ((self.open_settings["n_run"] > 0) & (self.open_settings["n_run"] < self.looks.first)).any():
            return True
        table = self.table[self.table["in_budget"] & (self.table["worth_having"] | self.table["saved"].isna())]
        return self.twin is None and not table["high"].notna().any() and bool((table["n_run"] < FIRST_LOOK).any())

    def data_for_nearest(self, what: str) -> int | None:
        """`further_seeds` or `further_sentences` of `nearest`; 0 if nothing is open, None if no number would decide."""
        if self.open_settings.empty or self.outcome not in ("freeze", "not decided"):
            return 0
        row = self.nearest if self.twin is None else None
        return None if row is None or pd.isna(row[what]) else int(row[what])


def _row(row: pd.Series) -> dict[str, Any]:
    return {str(key): value for key, value in row.to_dict().items()}


def _first(table: pd.DataFrame) -> dict[str, Any] | None:
    return None if table.empty else _row(table.iloc[0])


def with_verdicts(table: pd.DataFrame, plan: DecisionPlan, baseline: Baseline) -> pd.DataFrame:
    """Add `verdict`, `chance`, `difference`, `barred` and `qualifies` to a table with `loss`, `low`, `high`,
    `variance`, `df`, `worth_having`, `in_budget` and `_BARS`; in a vacuous question none qualifies.
    """
    limit, says_something = plan.tolerance, not baseline.is_vacuous(plan.tolerance)
    pairs = list(zip(table["low"].tolist(), table["high"].tolist(), strict=True))
    verdicts = pd.Series([verdict(*ends, limit) for ends in pairs], index=table.index, dtype=object)
    rows = records(table[_BARS])
    why_not = [_why_barred(row, limit, plan.error) if row["collapsed"] else "" for row in rows]
    barred = pd.Series(why_not, index=table.index, dtype=object)
    chance = chance_within(numbers(table, "loss"), numbers(table, "variance"), numbers(table, "df"), limit)
    return table.assign(
        verdict=verdicts,
        chance=np.where((verdicts == "not decided") & table["high"].notna() & says_something, chance, np.nan),
        difference=[_difference(*ends) for ends in pairs],
        barred=barred,
        qualifies=(verdicts == WITHIN) & (barred == "") & table["worth_having"] & table["in_budget"] & says_something,
    )


def _difference(low: float, high: float) -> Difference:
    if not np.isfinite(high):
        return "too few to decide"
    return "worse" if low > ROUNDING else "better" if high < -ROUNDING else "no difference shown"


def _why_barred(row: Mapping[str, Any], limit: float, error: float) -> str:
    """Why the collapses of a setting (one at least) rule out recommending it; empty if they do not."""
    if row["excess_p"] <= error:
        return "it collapses more often than the baseline"
    return "" if _loss_over_all_runs(row) <= limit + ROUNDING else "its mean over all runs is not within the tolerance"


def _loss_over_all_runs(row: Mapping[str, Any]) -> float:
    """The loss over all runs, collapsed ones included, that the tolerance is compared with, in points.

    If the baseline collapses as often, the recipe is to blame, so the mean is enough; otherwise it is the upper end.
    """
    is_more = row["collapsed"] * row["baseline_runs"] > row["baseline_collapsed"] * row["runs"]
    return float(row["high_all"] if is_more else row["loss_all"])


def _tolerance_needed(table: pd.DataFrame) -> pd.Series:
    """The smallest tolerance that each setting meets, both without its collapsed runs and with them; at least 0."""
    rows = records(table[["high", *_BARS]])
    over_all_runs = [_loss_over_all_runs(row) if row["collapsed"] else -np.inf for row in rows]
    return pd.Series(np.maximum(np.maximum(numbers(table, "high"), over_all_runs), 0.0), index=table.index)


def decide(
    frame: pd.DataFrame,
    plan: DecisionPlan | None = None,
    *,
    budget: Mapping[str, float] | None = None,
    value: str = "score",
) -> Decision:
    """The decisions of one question.

    Args:
        frame: Trials with one baseline and objective group, as `trial_frame` returns them, including planned ones.
        plan: None for the defaults.
        budget: Upper limits on a setting's mean of columns of the frame, e.g. `{"trainable_params": 1e6}`.
        value: Column of the score.

    Raises:
        ValueError: `value` is a test score, on which nothing is selected; the frame holds several baselines or
            objective groups, lacks a column, or has two completed trials of one setting and seed.
    """
    _check(frame, value)
    return _decide(frame, plan or DecisionPlan(), budget or {}, value)


def baseline_of(frame: pd.DataFrame, value: str = "score") -> Baseline:
    """What the baseline (`cell` equal to `baseline`) has learned, by `value` of completed trials of one question."""
    runs = frame[frame["cell"] == frame["baseline"]]
    if "state" not in frame.columns:
        return _baseline(runs, value)
    diverged = int((runs["state"] == State.DIVERGED.value).sum()), len(runs)
    return replace(_baseline(runs[runs["state"] == COMPLETED], value), diverged=diverged)


def loss_table(frame: pd.DataFrame, value: str = "score", plan: DecisionPlan | None = None) -> pd.DataFrame:
    """The losses of all settings of a frame in `value`, which may be of any split, with the intervals that decide.

    One row per setting with the columns `LOSS_COLUMNS`. A question is the settings that share a baseline and a set-up;
    the frame has to hold all settings of each question, as their intervals hold jointly.

    Raises:
        ValueError: A column is absent, or a setting has two completed trials of one seed.
    """
    require(frame, ["cell", "baseline", "group", value])
    keys = [name for name in ("group", "baseline", "setup") if name in frame.columns]
    frozen = frame[frame["cell"] != frame["baseline"]]
    tables = []
    for key, rows in frozen.groupby(keys, sort=False):
        # The baseline's trials belong to each question, though their own set-up may be another one.
        mine = frame[frame.index.isin(rows.index) | (frame["cell"] == key[keys.index("baseline")])]
        decision = _decide(mine, plan or DecisionPlan(), {}, value)
        tables.append(decision.table.assign(method=decision.method))
    if not tables:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in LOSS_COLUMNS})
    order = {cell: place for place, cell in enumerate(frozen["cell"].unique())}
    table = pd.concat(tables, ignore_index=True)[list(LOSS_COLUMNS)]
    return table.sort_values("cell", key=lambda cells: cells.map(order), kind="stable", ignore_index=True)


LOSS_COLUMNS = (
    "cell", "baseline", "group", "n_pairs", "n_run", "unpaired", "n_sentences", "n_documents", "loss", "median",
    "std", "low", "high", "why_none", "so_far", "difference", "method",
)  # fmt: skip


def _decide(frame: pd.DataFrame, plan: DecisionPlan, budget: Mapping[str, float], value: str) -> Decision:
    by_setting = losses(frame, value)
    looks, baseline = plan.looks(planned_seeds(frame)), baseline_of(frame, value)
    cost = plan.cost or default_saving(frame)  # the user's choice, or a cost that is counted
    table = _losses_table(by_setting, frame).assign(**_collapse_columns(by_setting))
    table = table.merge(_savings_table(frame, cost, table["cell"]), on="cell", how="left")
    worth = _worth_having(table, cost, plan.min_saving)
    # The intervals of the settings that may be recommended hold jointly; the others are not corrected for. A setting
    # whose saving is not measured yet counts too, or the other intervals would widen on the day that it is measured
    # (`test_a_saving_too_small_is_not_worth_having_and_does_not_widen_the_intervals_of_the_others`).
    family = worth | table["saved"].isna().to_numpy(dtype=bool)
    intervals = _intervals(by_setting, looks, plan.error, family, family & _shares_variance(frame, table))
    done = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
    changing, broken = freeze_changes_by(done, "cell"), _n_broken(frame)
    table = table.assign(
        **_interval_columns(by_setting, intervals, looks, baseline, _possible(frame, value, baseline)),
        worth_having=worth,
        in_budget=_in_budget(frame, table["cell"], budget),
        froze=[changing.get(cell, "") for cell in table["cell"]],
        broken=np.array([broken.get(cell, 0) for cell in table["cell"]], dtype=np.int64),
    )
    return Decision(
        plan=plan,
        cost=cost,
        looks=looks,
        n_layers=int(frame["n_layers"].iloc[0]) if "n_layers" in frame.columns and len(frame) else None,
        tail=intervals.tail,
        method=intervals.method,
        baseline=baseline,
        table=with_verdicts(table, plan, baseline),
        estimate=intervals.estimate,
    )


def _interval_columns(
    by_setting: Losses, intervals: Simultaneous, looks: PlannedLooks, baseline: Baseline, possible: tuple[float, float]
) -> dict[str, Any]:
    """The columns of `Decision.table` that hold an interval, within the least and the largest `possible` loss."""
    mean, mean_all = by_setting.estimate.mean, by_setting.estimate_all_runs.mean
    variance, n_run = intervals.estimate.variance, numbers(by_setting.cells, "n_run")
    # Collapses skew the losses of all runs, so these are guarded like exponential losses and share no variance.
    _, high_all = deciding_ends(by_setting.estimate_all_runs, looks, intervals.tail, n_run, guard=1.0)
    high_all = np.where(numbers(by_setting.cells, "n_pairs") == n_run, intervals.high, high_all)
    low, high = (_within_possible(ends, mean, *possible) for ends in (intervals.low, intervals.high))
    # An interval wider than half of the score's range excludes nothing that anybody would ask about.
    says_nothing = high - low > (possible[1] - possible[0]) / 2
    rows = by_setting.cells.assign(loss=mean, variance=variance, high=high, says_nothing=says_nothing)
    why_none = [_why_no_interval(row, looks, baseline) for row in records(rows)]
    has_none = np.array([why != "" for why in why_none], dtype=bool)  # nothing is decided without an interval
    return {
        "variance": variance,
        "df": intervals.estimate.df,
        "low": np.where(has_none, np.nan, low),
        "high": np.where(has_none, np.nan, high),
        "loss_all": mean_all,
        "high_all": np.where(has_none, np.nan, _within_possible(high_all, mean_all, *possible)),
        "why_none": why_none,
    }


def _intervals(by_setting: Losses, looks: PlannedLooks, error: float, family: Bools, pooled: Bools) -> Simultaneous:
    if not by_setting.values:
        return Simultaneous(np.empty(0), np.empty(0), error, "", by_setting.estimate)
    n_run, sizes = numbers(by_setting.cells, "n_run"), by_setting.sizes  # looks count collapsed runs too
    return joint_intervals(by_setting.values, looks, error, n_run=n_run, family=family, pooled=pooled, sizes=sizes)


def _shares_variance(frame: pd.DataFrame, table: pd.DataFrame) -> Bools:
    """Which settings may share their variance over seeds: those of one encoder, except the embeddings alone.

    In our trials their losses have 0.43 times (0.33 to 0.57) the standard deviation of the other settings.
    """
    if "model" in frame.columns and frame["model"].nunique() > 1:
        return np.zeros(len(table), dtype=bool)
    freezes = table["freeze_spec"]  # None for a label
    return np.array([freeze is None or not freeze.is_embeddings_alone for freeze in freezes], dtype=bool)


def _possible(frame: pd.DataFrame, value: str, baseline: Baseline) -> tuple[float, float]:
    """The smallest and the largest loss that the range of the score allows, in points; infinite if it is unknown."""
    if not np.isfinite(baseline.score):
        return -np.inf, np.inf
    metric = None
    if "metric" in frame.columns:
        metric = METRICS.get(value) or METRICS.get(str(frame["metric"].iloc[0]))
        if metric is None:
            return -np.inf, np.inf
    lowest = 0.0 if metric is None else POINTS * metric.lowest
    if metric is not None and not metric.higher_is_better:  # its scores are its values with their sign turned
        return baseline.score + lowest, np.inf
    return baseline.score - POINTS, baseline.score - lowest


def _within_possible(ends: Floats, means: Floats, least: float, largest: float) -> Floats:
    """The ends, cut to the possible losses but never past the mean of their interval."""
    limited: Floats = np.clip(ends, np.minimum(means, least), np.maximum(means, largest))
    return limited


def _savings_table(frame: pd.DataFrame, cost: str, cells: pd.Series) -> pd.DataFrame:
    """One row per setting with what it saves; NaN if the frame lacks the column `cost`."""
    names = {"low": "saved_low", "high": "saved_high"}
    if cost in frame.columns:
        return savings(frame, [cost]).rename(columns=names)[["cell", "saved", "saved_low", "saved_high", "note"]]
    return pd.DataFrame(
        {"cell": cells, "saved": np.nan, "saved_low": np.nan, "saved_high": np.nan, "note": "not recorded"}
    )


def planned_seeds(frame: pd.DataFrame) -> int:
    """The largest number of trials that a `cell` has, run or not."""
    return int(frame["cell"].value_counts(sort=False).max()) if len(frame) else 0


def _check(frame: pd.DataFrame, value: str) -> None:
    if value.startswith("test"):
        raise ValueError(NOT_ON_TEST)
    require(frame, ["cell", "baseline", "group", "freeze_spec", "trainable_params"])
    for column in ("baseline", "group"):
        names = frame[column].dropna().unique()
        if len(names) > 1:
            raise ValueError(f"{len(names)} values of {column}: a decision needs one; choose a model and train size")


def _losses_table(by_setting: Losses, frame: pd.DataFrame) -> pd.DataFrame:
    cells, freezes = by_setting.cells, dict[str, FreezeSpec]()
    if "freeze_spec" in frame.columns:  # frames with the losses of a single label lack it
        freezes = dict(zip(frame["cell"].tolist(), frame["freeze_spec"].tolist(), strict=True))
    specs = [freezes.get(cell) for cell in cells["cell"]]
    by_seed = [seed_means(values) for values in by_setting.values]
    columns = ["cell", "baseline", "group", "n_pairs", "n_run", "unpaired", "n_baseline", "n_sentences", "n_documents"]
    return cells[[*columns, "n_folds", "median"]].assign(
        freeze=np.array(["" if freeze is None else freeze.label for freeze in specs], dtype=object),
        freeze_spec=pd.Series(specs, index=cells.index, dtype=object),
        unit=unit_of(str(frame["task"].iloc[0])) if "task" in frame.columns and len(frame) else "sentences",
        loss=by_setting.estimate.mean,
        variance=by_setting.estimate.variance,
        std=[means.std(ddof=1) if len(means) > 1 else np.nan for means in by_seed],
        so_far=pd.Series([tuple(means.tolist()) for means in by_seed], dtype=object),
    )


def _collapse_columns(by_setting: Losses) -> dict[str, list[Any]]:
    own, baseline = by_setting.own, by_setting.baseline
    return {
        "collapsed": [runs.collapsed for runs in own],
        "runs": [runs.runs for runs in own],
        "possible": [runs.possible for runs in own],
        "baseline_collapsed": [runs.collapsed for runs in baseline],
        "baseline_runs": [runs.runs for runs in baseline],
        "collapses": [runs.sentence for runs in own],
        "excess_p": [excess_p(*sides) for sides in zip(own, baseline, strict=True)],
    }


def _worth_having(table: pd.DataFrame, cost: str, least: float) -> Bools:
    """Whether each setting saves enough; a measured cost, such as time, must also be shown to be saved at all."""
    saved, low = numbers(table, "saved"), numbers(table, "saved_low")
    worth: Bools = (saved >= least - ROUNDING) & (saved > 0)  # also of `min_saving: 0`: saving nothing is no reason
    return worth if cost in COUNTED else worth & (low > 0)


def _why_no_interval(row: Mapping[str, Any], looks: PlannedLooks, baseline: Baseline) -> str:
    """Why a setting has no interval; empty if it has one."""
    n = int(row["n_pairs"])
    if not n:
        return "every pair has a collapsed run" if row["n_run"] else "no pairs" if row["n_baseline"] else "no baseline"
    if not baseline.has_learned:
        return "the baseline has not learned the task"
    if row["says_nothing"]:
        return NOTHING_KNOWN
    if np.isfinite(row["high"]):
        return ""
    if n > 1 and not row["variance"] > 0:  # true for NaN as well
        return NO_DIFFERENCE if row["loss"] == 0 else f"all {amount(n, 'pair')} differ by the same"
    by_seeds = n < looks.first or pd.isna(row["n_documents"])  # otherwise the documents are too few
    few = amount(n, "seed") if by_seeds else amount(int(row["n_documents"]), "document")
    return f"{few} {'is' if few.startswith('1 ') else 'are'} too few for an interval"


def _baseline(done: pd.DataFrame, value: str) -> Baseline:
    """The baseline's state from its completed trials: it has learned if collapses are rare and it beats a constant."""
    scores = numbers(done, value)
    constant = numbers(done, "constant_score") if "constant_score" in done.columns else np.full(len(done), np.nan)
    flags = numbers(done, "collapsed") if "collapsed" in done.columns else np.full(len(done), np.nan)
    runs = collapses(flags[np.isfinite(flags)] == 1)
    usable = np.isfinite(scores) & np.isfinite(constant)
    learned = not runs.runs or runs.is_rare
    gains: Floats = scores[usable] - constant[usable]
    if learned and len(gains) > 1 and value == "score":  # constant predictions are known for the score alone
        is_whole = "sentences" not in done.columns or ("folds" in done.columns and bool(done["folds"].any()))
        learned = _is_above_zero(gains, None if is_whole else done["sentences"][usable])  # folds differ in theirs
    means = [
        POINTS * float(np.nanmean(values)) if np.isfinite(values).any() else np.nan for values in (scores, constant)
    ]
    return Baseline(means[0], means[1], runs, learned)


def _is_above_zero(gains: Floats, sentences: pd.Series | None) -> bool:
    """Whether the mean gain is shown to be above 0, over runs and, if their contributions are known, sentences."""
    values = gains
    if sentences is not None:
        arrays = sentences.tolist()
        if all(array is not None and len(array) == len(arrays[0]) > 1 for array in arrays):
            stack = np.stack(arrays).astype(np.float64)
            # Each run keeps its gain, and its contributions only say how sentences vary around it.
            values = stack - stack.mean(axis=1, keepdims=True) + gains[:, None]
    if np.ptp(gains) <= ROUNDING and values.ndim == 1:  # without spread there is no interval
        return bool(gains[0] > 0)
    loss = interval(-values, 0.9)  # 90 %: its upper end, which is guarded against skewness, errs in 5 %
    return bool(loss.mean < 0) if loss.high is None else loss.high < 0


def _n_broken(frame: pd.DataFrame) -> Mapping[str, int]:
    """Number of trials by cell that diverged, ran out of memory or failed; the remaining runs are a lucky selection."""
    if "state" not in frame.columns:
        return {}
    return Counter(frame["cell"].array[frame["state"].isin(BROKEN).to_numpy(dtype=bool)])


def _in_budget(frame: pd.DataFrame, cells: pd.Series, budget: Mapping[str, float]) -> Bools:
    """Whether the mean of every limited column is known and within its limit."""
    require(frame, list(budget))
    within = np.ones(len(cells), dtype=bool)
    for column, limit in budget.items():
        rows = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
        means = pd.Series(numbers(rows, column)).groupby(rows["cell"].to_numpy()).mean()
        within &= (cells.map(means) <= limit).to_numpy(dtype=bool)  # False for NaN: what is unknown may be too much
    return within

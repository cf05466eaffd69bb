"""What a sweep has decided so far: one interval for the loss of each setting, and all that is read off it.

A freeze is recommended for what it saves, if it loses no more than the tolerance. So a setting qualifies if

- it saves at least the plan's `min_saving` of the cost that the person cares for,
- the upper end of its loss, over seeds and sentences, is within the tolerance (`looks`: at most 5 % of sweeps
  show any such loss where it is truly larger, at however many looks),
- it does not collapse more often than its baseline, as far as can be seen, and all of its runs together, collapsed ones
  included, pass too (`losses`),

and the one that saves most is recommended. A verdict on a setting follows from its own interval alone. If the baseline
itself has not learned the task, there is neither an interval nor a recommendation. An interval never leaves what the
score can be, and where it spans more than half of that, nothing is known yet, and is said so in place of it.

`make calibration` measures what this holds, from stores to answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.decision_plan import FIRST_LOOK, DecisionPlan, PlannedLooks
from orchestrator.analysis.further_seeds import Further, further
from orchestrator.analysis.losses import Collapses
from orchestrator.analysis.rows import ROUNDING
from orchestrator.analysis.two_way import BEYOND, WITHIN, Estimate, verdict
from orchestrator.config.quantities import POINTS

NOT_ON_TEST = "the test split is shown once and selects nothing; choose on dev"
NO_DIFFERENCE = "no pair differs"
NOTHING_KNOWN = "nothing is known yet, as the interval would span more than half of what the score can be"
Outcome = Literal["freeze", "freeze nothing", "not worth it", "not decided", "not learned"]
Difference = Literal["worse", "better", "no difference shown", "too few to decide"]
Bools = npt.NDArray[np.bool_]
_BARS = ["collapsed", "runs", "excess_p", "baseline_collapsed", "baseline_runs", "high_all", "loss_all"]
_MISSING = tuple(field.name for field in fields(Further))


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
        score: Mean over its completed runs, in points; NaN without any.
        constant: Score of the best constant prediction, likewise; NaN if it was not recorded.
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
        cost: What freezing should save, a key of `record.SAVED`.
        looks: When losses are looked at; the intervals hold at all of these.
        n_layers: Encoder layers; None if unknown.
        tail: Chance beyond each end that every setting was given, before looks.
        method: How the intervals of several settings hold together, in words; empty for a single one.
        table: One row a setting but the baseline, in order of first appearance. Losses are in points,
            positive where the setting is worse than the baseline.

            Of its loss: `cell`, `baseline`, `group`, `freeze`, `n_pairs` (pairs that the interval rests on), `n_run`
            (pairs, collapsed ones included), `n_baseline` (the baseline's completed trials), `n_sentences` (Int64, NA
            where it is over seeds alone), `n_documents` (Int64, NA where unknown), `n_folds` (Int64, NA without a
            cross-validation), `loss` (mean), `median`, `std` (over seeds), `low`,
            `high` (**the** interval; NaN where there is none), `why_none` (why; else empty),
            `so_far` (loss of each seed, a tuple).

            Read off the interval: `verdict` (at the plan's tolerance, see `two_way.Verdict`), `difference`
            (`Difference`: of the baseline at all), `qualifies`.

            Of collapses: `collapsed`, `runs`, `possible` (bound on their share), `baseline_collapsed`,
            `baseline_runs`, `collapses` (a sentence), `excess_p` (of Fisher's test), `loss_all`, `high_all`
            (mean loss over all runs, and its upper end), `barred` (why collapses bar it; else empty),
            `broken` (trials without a score).

            Of savings: `saved`, `saved_low`, `saved_high` (shares of the plan's cost), `note`, `worth_having` (whether
            it saves `min_saving`; unknown counts as no), `in_budget`, `froze` (in words).
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
        return replace(self, plan=plan, table=judged(self.table, plan))

    @cached_property
    def missing(self) -> pd.DataFrame:
        """What decides each row of `table`: `further_seeds`, `further_sentences`, `sentences_with_all_seeds` (Int64,
        see `further_seeds.Further`); NA if nothing will, or if nothing is known of it.

        Only who shows it pays for it: it takes as long as all else that is decided.
        """
        is_known = self.table["verdict"].isin((WITHIN, BEYOND)) | (not self.baseline.has_learned)
        counts = np.full((len(_MISSING), len(is_known)), np.nan)
        for row, is_one in enumerate(is_known):
            estimate = Estimate(*(values[row] for values in self.estimate))
            if is_one:  # decided: nothing more is needed
                counts[:, row] = 0
            elif estimate.variance > 0:
                needed = further(estimate, self.looks, self.plan.tolerance, self.tail)
                counts[:, row] = [np.nan if n is None else n for n in (getattr(needed, name) for name in _MISSING)]
        columns = {
            name: pd.array(of, dtype="Float64").astype("Int64") for name, of in zip(_MISSING, counts, strict=True)
        }
        return pd.DataFrame(columns, index=self.table.index)

    @cached_property
    def trade_offs(self) -> tuple[TradeOff, ...]:
        """What each tolerance buys, the smallest first: each setting that no other beats in both."""
        table = self.table
        # The tolerance has to hold for runs that do not collapse and for all of them, and is never below 0.
        needed = np.maximum(np.maximum(table["high"], table["high_all"]), 0.0)
        can = table["worth_having"] & table["in_budget"] & needed.notna() & ~(table["excess_p"] <= self.plan.error)
        bought: list[TradeOff] = []
        if not self.baseline.has_learned:
            return ()
        rows = table.assign(needed=needed)[can].sort_values(["needed", "saved"], ascending=[True, False])
        for row in rows.to_dict("records"):
            if not bought or row["saved"] > bought[-1].saved + ROUNDING:
                if row["needed"] >= POINTS:
                    break  # that tolerates any loss
                bought.append(TradeOff(row["needed"], row["cell"], row["freeze"], row["saved"], row["loss"]))
        return tuple(bought)

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """The settings worth having, the largest saving first."""
        table = self.table[self.table["worth_having"] & self.table["in_budget"]]
        return table.sort_values("saved", ascending=False, kind="stable")

    @cached_property
    def outcome(self) -> Outcome:
        """Whether a setting is recommended, and if not, why."""
        table, candidates = self.table, self.candidates
        if not self.baseline.has_learned:
            return "not learned"
        if candidates["qualifies"].any():
            return "freeze"
        # Open is what a later look may still show; without a saving measured, all that has not run.
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
        """Whether a setting is recommended, or none will be."""
        return self.outcome not in ("not decided", "not learned")

    @cached_property
    def chosen(self) -> dict[str, Any] | None:
        """The row that is recommended; None if there is none."""
        return _first(self.candidates[self.candidates["qualifies"]]) if self.outcome == "freeze" else None

    @cached_property
    def by_estimate(self) -> dict[str, Any] | None:
        """The candidate that saves most of those whose mean loss is within the tolerance, shown to be or not."""
        within = self.candidates["loss"] <= self.plan.tolerance + ROUNDING
        likely = self.candidates[within & (self.candidates["barred"] == "")]
        return _first(likely) if self.baseline.has_learned else None

    @cached_property
    def open(self) -> pd.DataFrame:
        """Candidates that save more than the recommended one and are neither shown nor refused."""
        candidates, best = self.candidates, self.chosen
        still = candidates[~candidates["qualifies"] & (candidates["verdict"] != BEYOND) & (candidates["barred"] == "")]
        return still if best is None else still[still["saved"] > best["saved"]]

    @cached_property
    def nearest(self) -> dict[str, Any] | None:
        """The open candidate that the fewest further seeds would decide, one within the tolerance so far if any is."""
        if self.open.empty:
            return None
        still = self.open.join(self.missing)
        decidable = still[still["further_seeds"].notna() & (still["further_seeds"] > 0)]
        within = decidable[decidable["loss"] <= self.plan.tolerance + ROUNDING]
        decidable = within if len(within) else decidable  # what may be recommended interests more than what may not
        return None if decidable.empty else _row(decidable.loc[decidable["further_seeds"].astype(float).idxmin()])

    @cached_property
    def alike(self) -> dict[str, Any] | None:
        """The largest saving still open that no seed tells from the baseline; None where another may be shown within
        the tolerance sooner.
        """
        nearest = self.nearest
        if nearest is not None and nearest["loss"] <= self.plan.tolerance + ROUNDING:
            return None
        return _first(self.open[self.open["why_none"] == NO_DIFFERENCE])

    @cached_property
    def runner_up(self) -> dict[str, Any] | None:
        """The second best that qualifies; if nothing is decided, the nearest to a decision."""
        if self.outcome == "not decided":
            return self.nearest
        qualified = self.candidates[self.candidates["qualifies"]]
        return _first(qualified[1:]) if self.outcome == "freeze" else None

    @cached_property
    def subject(self) -> dict[str, Any] | None:
        """The row that the answer speaks of; None if no pair of runs has ended.

        The recommended setting, else the nearest to a decision, else the one that loses least: of the candidates, if
        one has pairs.
        """
        chosen = self.chosen or (self.alike or self.nearest if self.outcome == "not decided" else None)
        if chosen is not None:
            return chosen
        with_loss = self.table[self.table["loss"].notna()]
        candidates = with_loss[with_loss["worth_having"] & with_loss["in_budget"]]
        return _first((candidates if len(candidates) else with_loss).sort_values("loss", kind="stable"))

    @property
    def may_be_decided(self) -> bool:
        """Of what is not decided, whether further seeds are likely to, or the first look is still to come."""
        if self.takes("further_seeds"):
            return True
        table = self.table[self.table["in_budget"] & (self.table["worth_having"] | self.table["saved"].isna())]
        return self.alike is None and not table["high"].notna().any() and bool((table["n_run"] < FIRST_LOOK).any())

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


def judged(table: pd.DataFrame, plan: DecisionPlan) -> pd.DataFrame:
    """The table with all that depends on the tolerance."""
    limit = plan.tolerance
    pairs = list(zip(table["low"].tolist(), table["high"].tolist(), strict=True))
    verdicts = pd.Series([verdict(*ends, limit) for ends in pairs], index=table.index, dtype=object)
    why_not = [_barred(row, limit, plan.error) if row["collapsed"] else "" for row in table[_BARS].to_dict("records")]
    barred = pd.Series(why_not, index=table.index, dtype=object)
    return table.assign(
        verdict=verdicts,
        difference=[_difference(*ends) for ends in pairs],
        barred=barred,
        qualifies=(verdicts == WITHIN) & (barred == "") & table["worth_having"] & table["in_budget"],
    )


def _difference(low: float, high: float) -> Difference:
    if not np.isfinite(high):
        return "too few to decide"
    return "worse" if low > ROUNDING else "better" if high < -ROUNDING else "no difference shown"


def _barred(row: Mapping[str, Any], limit: float, error: float) -> str:
    """Why collapses, of which it has one or more, bar a setting from being recommended; empty if they do not."""
    if row["excess_p"] <= error:
        return "it collapses more often than the baseline"
    # Where the baseline collapses as often, it is the recipe that does, and the mean over all runs is enough.
    share = row["collapsed"] * row["baseline_runs"] > row["baseline_collapsed"] * row["runs"]
    passes = row["high_all"] if share else row["loss_all"]
    return "" if passes <= limit + ROUNDING else "its mean over all runs is not within the tolerance"

"""The sentences of an answer: plain English with figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from orchestrator.analysis.decide import Baseline, Decision, TradeOff
from orchestrator.analysis.decision_plan import ERROR, FIRST_LOOK, MIN_SAVING, labels_that_show, resolved_points
from orchestrator.analysis.freeze_names import dropout_sentence, parts, strip_and_word
from orchestrator.analysis.looks import KEPT
from orchestrator.analysis.savings import COUNTED
from orchestrator.analysis.setting_phrases import (
    Row,
    basis,
    collapses_text,
    conditions,
    items_of,
    loss_and_basis,
    loss_phrase,
    loss_text,
    saves_text,
    share_text,
    takes_text,
    too_few_seeds_text,
)
from orchestrator.analysis.two_way import BEYOND, PRIOR_DF, SKEWNESS, WITHIN
from orchestrator.config.quantities import amount, percent
from trials.escaping import escape_line
from trials.record import SAVED

NOT_YET, NOT_DECIDED, NOT_LEARNED = "Not decided yet", "Not decided", "Not learned"
NO_CANDIDATES = "no setting freezes anything, so there is nothing to choose from."
NO_BASELINE = "the baseline (freeze: none) has no completed trial yet."
NO_PAIRS = "no freeze has a completed trial yet of a seed that the baseline has completed."
TRY = "Try all of train if it had a part, then more epochs, then another learning rate."
LOWER_RATE = "Try a lower learning rate (optim.lr), a tenth of it at first."
LARGER = "Take a larger tolerance."
TRAIN_ALL = "Train everything, or ask with a larger tolerance or a smaller saving."
_MOST_TRADE_OFFS = 4  # in a sentence
HOW_DECIDED = (
    "Intervals of losses are two-way, over seeds and sentences (a crossed analysis of variance with Satterthwaite's "
    "degrees of freedom); where contributions of sentences were not recorded, they are over seeds alone and hold on "
    "this dev set. The variance over seeds is drawn towards what the settings worth having of a question share, with a "
    f"prior of {PRIOR_DF:g} degrees of freedom (Smyth 2004), and the upper end is guarded against losses of a skewness "
    f"up to {SKEWNESS:g}. Each end holds with chance {100 * (1 - ERROR):g} %, for all settings worth having of a "
    f"question together (max-t) and at every look from {FIRST_LOOK} seeds on: {100 * KEPT:g} % of the error is spent "
    "by the seeds that the sweep declares, in proportion to the third power of their share, and the rest is kept for "
    "further ones. No end leaves what the score can be. A verdict on a setting is read off its own interval alone. "
    f"A freeze is worth having if it saves {100 * MIN_SAVING:g} % of the cost, unless the sweep says otherwise."
)


class AnswerWords(NamedTuple):
    """An answer in words, for every surface.

    Attributes:
        headline: `Freeze the first 2 of 6 layers`, `Freeze nothing`, `Not worth it`, `Not decided yet`, `Not decided`,
            `Not learned`; the glossary has what to do about each.
        in_passing: The same within a sentence: `freeze the first 2 of 6 layers`, `about 9 more seeds to decide`.
        brief: Loss and savings as a card has them, in a sentence; empty before a pair of runs has ended.
        condition: What follows the headline where a tolerance is met: `, within 1 point`; else empty.
        figures: What is lost and saved and how sure that is, or what is missing, in a sentence or two after a colon.
        trade_offs: What each tolerance buys, in one sentence; empty where there is no interval.
        notes: All else, one sentence each.
    """

    headline: str
    in_passing: str
    brief: str
    condition: str
    figures: str
    trade_offs: str = ""
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, str]:
        """The answer in two lines."""
        return f"{self.headline}{self.condition}", f"{self.figures[:1].upper()}{self.figures[1:]}"

    @property
    def sentence(self) -> str:
        """Headline, lines and notes in one paragraph."""
        rest = (self.figures, self.trade_offs, *self.notes)
        return f"{self.headline}{self.condition}: {' '.join(filter(None, rest))}"


def answer_words(decision: Decision, with_dropout: bool | None = None) -> AnswerWords:
    """What to freeze, or why that is not known and what to do: the words of every surface.

    Args:
        with_dropout: Whether frozen layers ran with dropout; None where that is not known, and nothing is said of it.
    """
    headline, figures = _headline_and_figures(decision)
    notes: list[str] = []
    if decision.choice is not None:
        notes += _conditions(decision.choice, decision)
    begun = decision.outcome == "not learned" or (decision.table["n_run"] > 0).any()
    if begun and (left_out := left_out_sentence(decision)):
        notes.append(left_out)
    if decision.subject is not None and with_dropout is not None:
        notes.append(dropout_sentence(with_dropout))
    return AnswerWords(
        headline=headline,
        in_passing=_passing_text(headline, decision),
        brief=_brief(decision),
        condition=f", within {amount(decision.plan.tolerance, 'point')}" if decision.choice is not None else "",
        figures=figures,
        trade_offs=trade_off_sentence(decision),
        notes=tuple(notes),
    )


def _parts(row: Row, decision: Decision) -> str:
    return parts(row["freeze_spec"], decision.n_layers)


def _headline_and_figures(decision: Decision) -> tuple[str, str]:
    if decision.table.empty:
        return NOT_DECIDED, NO_CANDIDATES
    if decision.outcome == "not learned":
        return NOT_LEARNED, _not_learned(decision)
    if decision.choice is not None:
        return f"Freeze {_parts(decision.choice, decision)}", _figures(decision.choice, decision)
    if decision.outcome == "freeze nothing":
        return "Freeze nothing", _freeze_nothing(decision)
    if decision.outcome == "not worth it":
        return "Not worth it", _not_worth_it(decision)
    if decision.is_vacuous:
        return NOT_DECIDED, _gives_up_all(decision)
    if not (decision.table["n_run"] > 0).any():
        n_diverged, n_trials = decision.baseline.diverged
        if n_diverged and n_diverged == n_trials:
            text = f"the trials of the baseline (freeze: none) diverged ({n_diverged} of {n_trials})."
            return NOT_DECIDED, f"{text} {LOWER_RATE}"
        return NOT_YET, NO_PAIRS if (decision.table["n_baseline"] > 0).any() else NO_BASELINE
    return NOT_YET if decision.may_be_decided else NOT_DECIDED, _not_decided(decision)


def _passing_text(headline: str, decision: Decision) -> str:
    more = decision.data_for_nearest("further_seeds")
    if decision.outcome == "not decided" and more:
        return f"about {amount(more, 'more seed')} to decide"
    return f"{headline[0].lower()}{headline[1:]}"


def _brief(decision: Decision) -> str:
    """As `Loses 0.4 points (loss -0.1 to 1.0); saves 12 % of the training FLOPs.` has it, of the answer's subject."""
    row = decision.subject
    if row is None or not math.isfinite(row["loss"]):
        return ""
    text = loss_text(row, 1)
    text = text.capitalize() if decision.choice is not None else f"Freezing {_parts(row, decision)} {text}"
    text = f"{text}{'' if decision.is_decided else ' so far'}; {saves_text(row)}".removesuffix("; ")
    return f"{text}. It {row['froze']}." if row["froze"] else f"{text}."


def _figures(row: Row, decision: Decision) -> str:
    """What is lost and saved, and how sure that is.

    `it loses 0.39 points (-0.04 to 0.95) and saves 52 % of the training FLOPs; 3 seeds, 200 dev sentences.`
    """
    saved, changing = share_text(row), row["froze"] and f"; it {row['froze']}"
    many = f"; {row['collapses'].partition(';')[0]}" if row["collapsed"] else ""
    return f"it {loss_phrase(row)} and saves {saved} of the {SAVED[decision.cost]}; {basis(row)}{many}{changing}."


def _conditions(row: Row, decision: Decision) -> tuple[str, ...]:
    """The conditions of a recommendation, and settings that may be better still, one sentence each."""
    notes = [*conditions(row), f"The median loss is {row['median']:z.2f} points."]
    nearest = decision.nearest
    if nearest is not None and nearest["loss"] <= decision.plan.tolerance:
        more = _parts(nearest, decision)
        notes.append(f"About {takes_text(nearest)} may allow {more}, which would save {100 * nearest['saved']:.0f} %.")
    return tuple(notes)


def _freeze_nothing(decision: Decision) -> str:
    limit = amount(decision.plan.tolerance, "point")
    refused = decision.candidates[decision.candidates["excess_p"] <= decision.plan.error]
    lost = decision.candidates[decision.candidates["verdict"] == BEYOND].sort_values("loss")
    if lost.empty:  # then all candidates are refused, or the outcome would be another
        row = refused.iloc[0].to_dict()
        return f"freezing {_parts(row, decision)} collapses more often than the baseline. {collapses_text(row)}"
    least = lost.iloc[0].to_dict()
    text = f"freezing {_parts(least, decision)} is shown to cost more than {limit}: it {loss_and_basis(least)}."
    if len(decision.candidates) == 1:
        return text
    others = "the others worth having cost more"  # each by its own interval: none follows from another
    return f"{text} {others.capitalize()}, too{', or collapse more often than the baseline' * (len(refused) > 0)}."


def _not_worth_it(decision: Decision) -> str:
    """`nothing within 1 point saves more than 1.3 % of the training FLOPs; ...`."""
    saving, limit = SAVED[decision.cost], amount(decision.plan.tolerance, "point")
    small = decision.table[decision.table["in_budget"] & ~decision.table["worth_having"]]
    within = small[small["verdict"] == WITHIN]
    most = (within if len(within) else small)["saved"].max()
    if decision.candidates.empty:
        least = percent(decision.plan.min_saving)
        text = f"nothing in this sweep saves {least} of the {saving}, at most {percent(most)}"
        return f"{text}. {TRAIN_ALL}" if most > 0 else f"nothing in this sweep saves {saving}. {TRAIN_ALL}"
    row = decision.candidates[decision.candidates["loss"].notna()].sort_values("loss").iloc[0].to_dict()
    interval = "" if not math.isfinite(row["high"]) else f" ({row['low']:z.1f} to {row['high']:z.1f})"
    return (
        f"nothing within {limit} saves more than {percent(most)} of the {saving}; freezing {_parts(row, decision)} "
        f"saves {percent(row['saved'])} for {row['loss']:z.1f} points{interval}. {TRAIN_ALL}"
    )


def _gives_up_all(decision: Decision) -> str:
    learned = f"the baseline scores {decision.baseline.gain:.1f} above the best constant prediction"
    limit = amount(decision.plan.tolerance, "point")
    return f"a tolerance of {limit} gives up all that was learned, as {learned}. Ask with a smaller one."


def _not_decided(decision: Decision) -> str:
    """Why nothing is recommended yet, and what would decide it."""
    limit, table = amount(decision.plan.tolerance, "point"), decision.table[decision.table["in_budget"]]
    # In the order in which a cause hides the next: budget, runs that learned nothing, collapses, no difference, too few
    # seeds. What further data would decide is said only where none of them holds.
    fit = table[table["worth_having"]]
    if fit.empty:
        least = f"{percent(decision.plan.min_saving)} of the {SAVED[decision.cost]}"
        return f"no setting within the budget is known to save {least}."
    paired = fit[fit["n_pairs"] > 0]
    if paired.empty:
        return f"in every pair of runs, one or both learned nothing. {TRY}"
    may_pass = (fit["verdict"] == WITHIN) | (decision.open_settings.empty & (fit["verdict"] != BEYOND))
    barred = fit[(fit["barred"] != "") & may_pass]
    if len(barred):
        row = barred.iloc[0].to_dict()
        return f"freezing {_parts(row, decision)} is not recommended, as {row['barred']}. {collapses_text(row)}"
    if decision.twin is not None:
        return _no_difference(decision.twin, decision)
    if not paired["high"].notna().any():
        # The one with the most seeds says best how little is known.
        row = paired.sort_values("n_pairs", ascending=False, kind="stable").iloc[0].to_dict()
        takes = f" It takes {FIRST_LOOK} seeds or more." if row["n_pairs"] < FIRST_LOOK else ""
        if decision.nearest is not None:
            takes = f" About {takes_text(decision.nearest)} would probably decide it."
        return f"{too_few_seeds_text(row)} ({_parts(row, decision)}).{takes}"
    row = dict(decision.subject or {})
    row |= decision.missing_data.loc[decision.table["cell"] == row["cell"]].iloc[0].to_dict()
    text = f"freezing {_parts(row, decision)} {loss_and_basis(row)} so far"
    text += f", which is not shown to be at most {limit}"
    takes = takes_text(row) or _both_together(row, decision)  # alone, else seeds and sentences together
    if not takes:
        return f"{text}; further seeds or {items_of(row)} are unlikely to decide it. {LARGER}"
    if not pd.isna(row["n_folds"]) and pd.isna(row["further_seeds"]):
        text += ", and seeds alone will not decide it, as all share the same examples"
    side = "within" if row["loss"] <= decision.plan.tolerance else "more than"
    return f"{text}; about {takes} would probably show that it is {side} {limit}."


def _no_difference(row: Row, decision: Decision) -> str:
    """`no difference seen ...; this dev split resolves 6.9 points; about 300 sentences would do`."""
    seeds = amount(int(row["n_pairs"]), "seed")
    text = f"no difference seen in {seeds} ({_parts(row, decision)})"
    if pd.isna(row["n_sentences"]):
        return f"{text}; the scores of this dev set are too coarse for one. A larger dev split may show it."
    n, wanted = int(row["n_sentences"]), labels_that_show(decision.plan.tolerance)
    if pd.isna(row["n_folds"]):
        text += f"; this dev split of {n:,} sentences resolves {resolved_points(n):.1f} points"
    else:
        folds = int(row["n_folds"])
        text += f"; {folds} folds of {n:,} examples resolve {resolved_points(n):.1f} points"
    if n >= wanted:
        return f"{text}. Further seeds or a larger dev split may show one."
    loss = amount(decision.plan.tolerance, "point")
    return f"{text}; about {wanted:,} would do: there a loss of {loss} would be seen."


def not_learned(base: Baseline) -> str:
    """`..., not shown to be above the 50.0 of the best constant prediction`: a score may be higher in few runs."""
    text = "the baseline has not learned the task"
    if not (math.isfinite(base.score) and math.isfinite(base.constant)):
        return text
    above = "not shown to be above" if base.score > base.constant else "not above"
    return f"{text}: it scores {base.score:.1f}, {above} the {base.constant:.1f} of the best constant prediction"


def _not_learned(decision: Decision) -> str:
    base, text = decision.baseline, not_learned(decision.baseline)
    if base.runs.collapsed:
        text += f"; {base.runs.collapsed} of {amount(base.runs.runs, 'run')} learned nothing"
    return f"{text}. So no freeze can be judged by it. {TRY}"


def trade_off_sentence(decision: Decision) -> str:
    """What each tolerance buys, in one sentence; empty where there is no interval."""
    bought = decision.trade_offs
    if not bought or (len(bought) == 1 and decision.outcome == "freeze"):
        return ""
    texts = [
        f"{_ceil(offer.tolerance)} points: {parts(offer.freeze, decision.n_layers)} ({percent(offer.saved)})"
        for offer in bought[:_MOST_TRADE_OFFS]
    ]
    return f"What each tolerance buys: {'; '.join([*texts, *beyond_texts(decision.n_beyond)])}."


def beyond_texts(n: int) -> list[str]:
    """A list with one line on how many settings are not listed and why; an empty list if all are listed."""
    why = "beyond three times the tolerance, what the deepest freeze loses, or all that was learned"
    return [f"{amount(n, 'more setting')} left out: {why}"] if n else []


def _ceil(points: float) -> str:
    """Rounded up, so that the tolerance that is named does buy it."""
    return f"{math.ceil(points * 10 - 1e-6) / 10:g}"


def _both_together(row: Row, decision: Decision) -> str:
    """`7 more seeds and 600 more dev sentences`, if neither would be enough alone; empty if both together are not."""
    seeds, sentences = decision.looks.planned - row["n_run"], row["sentences_with_all_seeds"]
    if pd.isna(sentences) or not sentences or seeds <= 0:
        return ""
    return f"{amount(int(seeds), 'more seed')} and {sentences:,} more {items_of(row)} together"


class _LeftOut(NamedTuple):
    """Why a setting is not considered: in a word or two that it shares with others, and with its own figures."""

    kind: str
    why: str


def excluded_counts(decision: Decision) -> dict[str, int]:
    """How many settings the answer does not consider, by reason."""
    counts: dict[str, int] = {}
    for kind, named in _left_out_settings(decision).items():
        counts[kind] = len(named)
    return counts


def left_out_sentence(decision: Decision) -> str:
    """Which settings the answer does not consider, and why; empty if none.

    A setting that is the only one with its reason is named, others are counted.
    """
    groups = _left_out_settings(decision)
    if not groups:
        return ""
    texts = [named[0] if len(named) == 1 else f"{len(named)} settings ({kind})" for kind, named in groups.items()]
    return f"Not considered: {'; '.join(texts)}."


def _left_out_settings(decision: Decision) -> dict[str, list[str]]:
    looked = bool((decision.table["n_run"] >= decision.looks.first).any())
    groups: dict[str, list[str]] = {}
    for row in decision.rows:
        reason = _left_out_reason(row, decision) or (_incomplete(row, decision) if looked else None)
        if reason is not None:
            groups.setdefault(reason.kind, []).append(f"{_parts(row, decision)} ({reason.why})")
    return groups


def _incomplete(row: Row, decision: Decision) -> _LeftOut | None:
    if row["n_run"] >= decision.looks.first:
        return None
    return _LeftOut("too few seeds", f"only {amount(int(row['n_run']), 'seed')}")


def _left_out_reason(row: Row, decision: Decision) -> _LeftOut | None:
    saving = SAVED[decision.cost]
    if not row["n_pairs"]:
        if row["n_run"]:
            return _LeftOut("every pair has a collapsed run", "every pair has a collapsed run")
        return _LeftOut("not run yet", "no seed has completed here and at the baseline")
    if not row["in_budget"]:
        return _LeftOut("over the budget", "over the budget")
    if pd.isna(row["saved"]):
        return _LeftOut(f"{saving} not known", f"{saving} not known" + (f": {row['note']}" if row["note"] else ""))
    if row["saved"] < 0:
        return _LeftOut(f"more {saving}", f"{-100 * row['saved']:.0f} % more {saving}")
    if row["saved"] == 0:
        return _LeftOut(f"no less {saving}", f"saves no {saving}")
    if row["worth_having"]:
        return None
    least = percent(decision.plan.min_saving)
    if row["saved"] >= decision.plan.min_saving:
        return _LeftOut(f"{saving} not shown to be saved", f"not shown to save {saving}: {share_text(row)}")
    return _LeftOut(f"saves less than {least}", f"saves {percent(row['saved'])}, less than {least}")


def interim_line(corpus: str, words: AnswerWords, decision: Decision) -> str:
    """The answer of a sweep that still runs, in a line: what its tolerance buys so far, else the next that buys any."""
    if decision.choice is not None:
        saved = f"saves {100 * decision.choice['saved']:.0f} %"
        return f"so far  {corpus}: {escape_line(words.in_passing)}{words.condition}, {saved}"
    limit = decision.plan.tolerance
    bought = next((trade_off for trade_off in decision.trade_offs if trade_off.tolerance > limit), None)
    text = f"so far  {corpus}: {words.headline.lower()} within {amount(limit, 'point')}"
    if bought is None:
        return text
    within = amount(tolerance_that_buys(bought.tolerance), "point")
    return f"{text}; within {within} {bought_text(bought, decision.n_layers or 0)}"


def bought_text(bought: TradeOff, n_layers: int) -> str:
    """What a tolerance buys: `■ ■■□□□□ first 2, saves 31 %`."""
    return f"{strip_and_word(bought.freeze, n_layers)}, saves {100 * bought.saved:.0f} %"


def tolerance_that_buys(tolerance: float) -> float:
    """A tolerance rounded up to a tenth of a point; below a tenth to a hundredth."""
    step = 0.1 if tolerance > 0.1 else 0.01
    return round(math.ceil(tolerance / step - 1e-9) * step, 2)  # up, so that the tolerance named does buy it


def saves_sentence(costs: pd.DataFrame, names: Mapping[str, str]) -> str:
    """`It saves 52.3 % of the training FLOPs, 31.0 % of the training time (28.1 to 33.5).`; empty if it saves nothing.

    Args:
        costs: The rows of `savings.savings` of a setting.
        names: What each cost is called.
    """
    shares = [
        f"{100 * row.saved:.1f} % of the {names[row.cost]}"
        + (f" ({100 * row.low:.1f} to {100 * row.high:.1f})" if row.low != row.high else "")
        for row in costs.itertuples()
        if pd.notna(row.saved) and (row.cost in COUNTED or row.low > 0 or row.high < 0)
    ]
    return f"It saves {', '.join(shares)}." if shares else ""


def further_seeds_text(more: int, n_open: int, n_answers: int) -> str:
    """`About 9 more seeds would probably decide 2 of 3 answers`: `n_open` are open, each takes at most `more` seeds."""
    which = "it" if n_answers == 1 else f"{n_open} of {n_answers} answers"
    return f"About {amount(more, 'more seed')} would probably decide {which}"

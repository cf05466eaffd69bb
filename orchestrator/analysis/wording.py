"""The sentences of a recommendation: plain English with figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from orchestrator.analysis.layer_strip import MOST_LAYERS, frozen_parts, strip_in_words
from orchestrator.analysis.looks import PlannedLooks
from orchestrator.analysis.trial_frame import SAVED
from orchestrator.config.quantities import counted
from trials.freeze.rules import ADAPTIVE
from trials.freeze.strategies import look_of
from trials.settings import FROZEN_EMBEDDINGS

Row = Mapping[str, Any]  # a row of `Recommendation.candidates`

NO_CANDIDATES = "Nothing to choose from: no setting freezes anything."
NO_BASELINE = "Not decided: the baseline (freeze: none) has no completed trial yet."
NO_PAIRS = "Not decided: no freeze has a completed trial yet of a seed that the baseline has completed."


class Asked(NamedTuple):
    """What an answer answers.

    Attributes:
        saving: A key of `SAVED`.
        outcome: As of `choose.Recommendation`.
    """

    tolerance: float
    saving: str
    looks: PlannedLooks
    n_layers: int | None
    outcome: str


def answer_sentence(table: pd.DataFrame, fit: pd.DataFrame, best: Row | None, nearest: Row | None, asked: Asked) -> str:
    """The answer with its figures, its condition, and what it does not consider.

    Args:
        table: `choose.Recommendation.candidates`.
        fit: Those within the budget that save.
        best: The recommended one.
        nearest: The one that the fewest further seeds would decide for a larger saving.
    """
    if table.empty:
        return NO_CANDIDATES
    if not (table["n_run"] > 0).any():
        return NO_PAIRS if (table["n_baseline"] > 0).any() else NO_BASELINE
    if best is not None:
        text = _chosen(best, asked) + _larger(nearest, asked)
    elif asked.outcome == "freeze nothing":
        ended = table["tested"] & ~table["shown"] & table["chain"].isin(fit["chain"])
        least = table[ended].sort_values("loss").iloc[0].to_dict()
        text = (
            f"Freeze nothing: {parts(least['freeze'], asked.n_layers)} is shown to cost more than "
            f"{exact_points(asked.tolerance)}: it {_loss(least)}. Freezing more is taken to cost no less."
        )
    else:
        text = _undecided(fit, nearest, asked)
    return text + left_out_sentence(table, asked)


def _chosen(row: Row, asked: Asked) -> str:
    """What is recommended, what it loses and saves, how sure, and under which condition."""
    failed, changing = int(row["broken"]), row["froze"] and f"; it {row['froze']}"
    text = (
        f"Freeze {parts(row['freeze'], asked.n_layers)}: it {_loss(row)}, within {exact_points(asked.tolerance)}, and "
        f"saves {share_text(row)} of the {SAVED[asked.saving]}{changing}. It holds for runs that do not "
        f"collapse ({row['collapses']})"
    )
    if row["baseline_collapsed"]:
        text += f"; {counted(int(row['baseline_collapsed']), 'run')} of the baseline collapsed"
    if failed:
        text += f"; {counted(failed, 'run')} of this setting failed"
    return f"{text}."


def _undecided(fit: pd.DataFrame, nearest: Row | None, asked: Asked) -> str:
    """Why nothing is recommended yet, and what would decide it."""
    if fit.empty:
        return f"Not decided: no setting within the budget is known to save {SAVED[asked.saving]}."
    most = int(fit["n_run"].max())
    limit = exact_points(asked.tolerance)
    if most < asked.looks.first:
        return f"Not decided with {counted(most, 'seed')}: the first look takes {counted(asked.looks.first, 'seed')}."
    if not (fit["n_pairs"] > 0).any():
        return (
            "Not decided: in every pair of runs, one or both learned nothing. Try more train data, more epochs or "
            "another learning rate."
        )
    known = fit[fit["high_decides"].notna() | fit["tested"]]
    closest = (known if len(known) else fit).sort_values("loss").iloc[0].to_dict()
    text = f"Not decided: no setting is shown to lose at most {limit}."
    row = closest if nearest is None else nearest
    text = f"{text} Freezing {parts(row['freeze'], asked.n_layers)} {_loss(row)} so far"
    before = fit[fit["tested"] & ~fit["shown"] & (fit["chain"] == row["chain"]) & (fit["cell"] != row["cell"])]
    if len(before) and not row["tested"]:
        text += f" (tested after {parts(before['freeze'].iloc[0], asked.n_layers)}, still undecided)"
    takes = _both(row, asked) if nearest is None else _takes(row)
    if not takes:
        return f"{text}; further seeds or dev sentences are unlikely to decide it."
    side = "within" if row["loss"] <= asked.tolerance else "more than"
    return f"{text}; about {takes} would probably show that it is {side} {limit}."


def _larger(row: Row | None, asked: Asked) -> str:
    """What may save more than the recommended setting; empty without one."""
    if row is None or row["loss"] > asked.tolerance:
        return ""
    freeze = parts(row["freeze"], asked.n_layers)
    return f" About {_takes(row)} may allow {freeze}, which would save {100 * row['saved']:.0f} %."


def _both(row: Row, asked: Asked) -> str:
    """`7 more seeds and 600 more dev sentences`, where neither alone would do; empty if both would not."""
    seeds, sentences = asked.looks.most - row["n_run"], row["sentences_with_all_seeds"]
    if pd.isna(sentences) or not sentences or seeds <= 0:
        return ""
    return f"{counted(int(seeds), 'more seed')} and {sentences:,} more dev sentences together"


def _takes(row: Row) -> str:
    """`4 more seeds or 600 more dev sentences`."""
    takes = [counted(int(row["further_seeds"]), "more seed")]
    if not pd.isna(row["further_sentences"]) and row["further_sentences"] > 0:
        takes.append(f"{row['further_sentences']:,} more dev sentences")
    return " or ".join(takes)


def _loss(row: Row) -> str:
    """`loses 0.39 points (loss between -0.04 and 0.95; median 0.41; 3 seeds, 200 dev sentences)`: what decides."""
    mean, ends = 100 * row["loss"], (100 * row["low_decides"], 100 * row["high_decides"])
    verb = "gains" if mean < -0.005 else "loses"
    base = [counted(int(row["n_pairs"]), "seed")]
    base.append("on this dev set" if pd.isna(row["n_sentences"]) else f"{row['n_sentences']:,} dev sentences")
    interval = f"loss between {ends[0]:.2f} and {ends[1]:.2f}; " if all(map(math.isfinite, ends)) else ""
    median = f"median {100 * row['median']:.2f}; "
    return f"{verb} {abs(mean):.2f} points ({interval}{median}{', '.join(base)})"


def exact_points(tolerance: float) -> str:
    """A given number of points, as it was given: `1 point`, `0.25 points`."""
    shown = f"{100 * tolerance:.6g}"
    return f"{shown} point{'s' * (shown != '1')}"


def parts(label: str, n_layers: int | None = None) -> str:
    """What a freeze label names: `first 4+E` is `the first 4 of 6 layers and the embeddings`; others stay.

    Sets of layers are counted from 1, as in the strip: `layers 0,3` is `layers 1, 4 of 6`, and so is what any other
    strategy freezes.
    """
    frozen = frozen_parts(label, n_layers or MOST_LAYERS)
    phrase = look_of(frozen.strategy).phrase if frozen else ""
    if frozen and phrase and (frozen.layers or not frozen.embeddings):
        of = counted(len(frozen.layers), "layer") if n_layers is None else f"{len(frozen.layers)} of {n_layers} layers"
        return phrase.format(layers=of) + (" and the embeddings" if frozen.embeddings else "")
    if frozen and not frozen.layers:
        return "the embeddings"
    if label.startswith(f"{ADAPTIVE} ("):
        rule = label.removeprefix(f"{ADAPTIVE} (").removesuffix(FROZEN_EMBEDDINGS)
        return f"layers while training (rule: {rule}" + (" and the embeddings" * label.endswith(FROZEN_EMBEDDINGS))
    return label if n_layers is None else strip_in_words(label, n_layers).removesuffix(" frozen")


class _LeftOut(NamedTuple):
    """Why a setting is not considered: in a word or two that it shares with others, and with its own figures."""

    kind: str
    why: str


def left_out_sentence(table: pd.DataFrame, asked: Asked) -> str:
    """Which settings the answer does not consider, and why; empty if none, else begins with a space.

    A setting that is the only one with its reason is named, others are counted.
    """
    looked = bool((table["n_run"] >= asked.looks.first).any())
    groups: dict[str, list[str]] = {}
    for row in table.to_dict("records"):
        found = _why(row, asked) or (_incomplete(row, asked) if looked else None)
        if found is not None:
            groups.setdefault(found.kind, []).append(f"{parts(row['freeze'], asked.n_layers)} ({found.why})")
    if not groups:
        return ""
    words = [named[0] if len(named) == 1 else f"{len(named)} settings ({kind})" for kind, named in groups.items()]
    return f" Not considered: {'; '.join(words)}."


def _incomplete(row: Row, asked: Asked) -> _LeftOut | None:
    if row["n_run"] >= asked.looks.first:
        return None
    return _LeftOut("too few seeds", f"only {counted(int(row['n_run']), 'seed')}")


def _why(row: Row, asked: Asked) -> _LeftOut | None:
    saving = SAVED[asked.saving]
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
    return _LeftOut(f"no less {saving}", f"saves no {saving}") if row["saved"] == 0 else None


def share_text(row: Row) -> str:
    """`52 % (49 to 55 %)`, `1.3 %`; without ends where they are unknown or would look the same."""
    digits = 0 if abs(row["saved"]) >= 0.1 else 1
    saved, *ends = (f"{100 * share:.{digits}f}" for share in (row["saved"], row["saved_low"], row["saved_high"]))
    if pd.isna(row["saved_low"]) or pd.isna(row["saved_high"]) or ends == [saved, saved]:
        return f"{saved} %"
    return f"{saved} % ({ends[0]} to {ends[1]} %)"

"""The sentences of a recommendation: plain English with figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from orchestrator.analysis.rows import ROUNDING, number

Row = Mapping[str, Any]  # a row of `Recommendation.candidates`

SAVED = {
    "training_cost_s": "training time",
    "train_s": "time of the optimiser steps",
    "trainable_params": "trainable parameters",
    "peak_memory_bytes": "peak memory",
    "energy_j": "energy",
}
NO_CANDIDATES = "Nothing to choose from: no setting freezes anything."
NO_PAIRS = "Not decidable: no completed trial has a completed baseline of the same seed."
_MAX_LEFT_OUT = 4  # settings named in a sentence


def points(difference: float) -> str:
    """A measured difference of scores in points (hundredths), one decimal and no sign: `0.4 points`."""
    return _points(f"{abs(100 * difference):.1f}".removesuffix(".0"))


def exact_points(tolerance: float) -> str:
    """A given number of points, as it was given: `1 point`, `0.25 points`."""
    return _points(f"{100 * tolerance:.6g}")


def _points(shown: str) -> str:
    return f"{shown} point{'s' * (shown != '1')}"


def parts(label: str, n_layers: int | None = None) -> str:
    """What a freeze label names: `first 4+E` is `the first 4 of 6 layers and the embeddings`; others stay."""
    found = re.fullmatch(r"(?:(first|last) (\d+)|(all))(\+E)?", label)
    if not found:
        return label
    side, depth, everything, embeddings = found.groups()
    of = "" if n_layers is None else f" of {n_layers}"
    layers = "all layers" if everything else f"the {side} {depth}{of} layer{'s' * (of != '' or depth != '1')}"
    return f"{layers} and the embeddings" if embeddings else layers


def chosen_sentence(
    row: Row, tolerance: float, error: float, saving: str, larger: Row | None, n_layers: int | None
) -> str:
    """What is recommended, what it saves and loses, how sure, and what might save more."""
    change = "gains" if row["mean"] > 0 else "loses"
    text = (
        f"Freeze {parts(row['freeze'], n_layers)}: it saves {_share(row)} of the {SAVED[saving]} and {change} "
        f"{points(row['mean'])} on average over {number(row['n_pairs'], 'seed')}; "
        f"a loss of more than {exact_points(tolerance)} is ruled out (error rate {100 * error:g} %)."
    )
    if row["broken"]:
        failed = int(row["broken"])
        text += f" {number(failed, 'trial')} of this setting failed and {'has' if failed == 1 else 'have'} no score."
    if larger is None:
        return text
    return (
        f"{text} {_about(larger)} may show the same for {parts(larger['freeze'], n_layers)}, "
        f"which would save {100 * larger['saved']:.0f} %."
    )


def open_sentence(row: Row, tolerance: float, n_layers: int | None) -> str:
    """Why nothing is recommended, and how many seeds would probably do."""
    change = "gain" if row["mean"] > 0 else "loss"
    return (
        f"Not decidable with {number(row['n_pairs'], 'seed')}: "
        f"no setting is shown to lose at most {exact_points(tolerance)}. "
        f"{_about(row)} would probably show it for {parts(row['freeze'], n_layers)} "
        f"(mean {change} so far: {points(row['mean'])})."
    )


def ruled_out_sentence(fit: pd.DataFrame, tolerance: float, saving: str, notes: pd.Series) -> str:
    """Why nothing is recommended where further seeds are not likely to help, or their number is unknown.

    `fit` holds the settings within the budget that save, `notes` why savings of settings are not known.
    """
    if fit.empty:
        why = "; ".join(dict.fromkeys(note for note in notes if note))
        text = f"Not decidable: no setting within the budget is known to save {SAVED[saving]}"
        return f"{text} ({why})." if why else f"{text}."
    if (fit["n_pairs"] < 2).all():
        return "Not decidable with 1 seed: an interval needs two pairs or more."
    if (fit["std"] == 0).any():
        return (
            "Not decidable: all pairs differ by the same amount, so the spread over seeds is unknown; "
            "a larger dev set helps."
        )
    least = fit.loc[fit["mean"].idxmax()]
    if least["mean"] < -tolerance - ROUNDING:
        return (
            f"Freeze nothing: every setting that saves loses more than {exact_points(tolerance)} on average "
            f"(the smallest loss: {points(least['mean'])}); further seeds are unlikely to change that."
        )
    return (
        f"Not decidable: {parts(least['freeze'])} is within {exact_points(tolerance)} on average, but not by enough, "
        "or a setting that freezes less is not, which suggests chance; further seeds are unlikely to help."
    )


def left_out_sentence(table: pd.DataFrame, saving: str) -> str:
    """Which settings with results the answer does not consider, and why; empty if none, else begins with a space."""
    out = [
        f"{parts(row['freeze'])} ({why})"
        for row in table.to_dict("records")
        if row["n_pairs"] and (why := _why(row, saving))
    ]
    if not out:
        return ""
    more = f" and {len(out) - _MAX_LEFT_OUT} more" if len(out) > _MAX_LEFT_OUT else ""
    return f" Not considered: {'; '.join(out[:_MAX_LEFT_OUT])}{more}."


def _why(row: Row, saving: str) -> str:
    if not row["in_budget"]:
        return "over the budget"
    if pd.isna(row["saved"]):
        return f"{SAVED[saving]} not known: {row['note']}" if row["note"] else f"{SAVED[saving]} not known"
    if row["saved"] <= 0:
        return f"{-100 * row['saved']:.0f} % more {SAVED[saving]}" if row["saved"] < 0 else f"saves no {SAVED[saving]}"
    return ""


def _share(row: Row) -> str:
    """`52 % (49 to 55 %)`; without ends where they are unknown or the same."""
    text, low, high = f"{100 * row['saved']:.0f} %", row["saved_low"], row["saved_high"]
    if pd.isna(low) or pd.isna(high) or low == high:
        return text
    return f"{text} ({100 * low:.0f} to {100 * high:.0f} %)"


def _about(row: Row) -> str:
    return f"About {number(int(row['further_seeds']), 'more seed')}"

"""The sentences of a recommendation: plain English with figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from orchestrator.analysis.rows import number

Row = Mapping[str, Any]  # a row of `Recommendation.candidates`

SAVED = {
    "training_cost_s": "training time",
    "train_s": "time of the optimiser steps",
    "trainable_params": "trainable parameters",
    "peak_memory_bytes": "peak memory",
    "energy_j": "energy",
}
NO_CANDIDATES = "Nothing to choose from: no cell freezes anything."
NO_PAIRS = "Not decidable: no completed trial has a completed baseline of the same seed."


def points(difference: float) -> str:
    """A difference of scores in points (hundredths), without a sign: `0.42 points`."""
    return f"{abs(100 * difference):.2f} points"


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
        f"a loss of more than {points(tolerance)} is ruled out (error rate {100 * error:g} %)."
    )
    if row["broken"]:
        text += f" {number(int(row['broken']), 'trial')} of it broke and left no score to count."
    if larger is None:
        return text
    return (
        f"{text} {_about(larger)} may show the same of {parts(larger['freeze'], n_layers)}, "
        f"which would save {100 * larger['saved']:.0f} %."
    )


def open_sentence(row: Row, tolerance: float, n_layers: int | None) -> str:
    """Why nothing is recommended, and how many seeds would probably do."""
    change = "gain" if row["mean"] > 0 else "loss"
    return (
        f"Not decidable with {number(row['n_pairs'], 'seed')}: "
        f"no eligible cell is shown to lose at most {points(tolerance)}. "
        f"{_about(row)} would probably show it of {parts(row['freeze'], n_layers)} "
        f"(mean {change} so far: {points(row['mean'])})."
    )


def ruled_out_sentence(fit: pd.DataFrame, tolerance: float, saving: str, notes: pd.Series) -> str:
    """Why nothing is recommended where further seeds are not likely to help, or their number is unknown.

    `fit` are the cells within the budget that save, `notes` what stands beside the savings of all.
    """
    if fit.empty:
        why = "; ".join(dict.fromkeys(note for note in notes if note))
        text = f"Not decidable: no cell within the budget is known to save {SAVED[saving]}"
        return f"{text} ({why})." if why else f"{text}."
    if (fit["n_pairs"] < 2).all():
        return "Not decidable with 1 seed: a spread needs two pairs or more."
    if (fit["std"] == 0).any():
        return (
            "Not decidable: where all pairs differ by the same there is no spread to judge by; "
            "a larger dev set tells more."
        )
    least = fit.loc[fit["mean"].idxmax()]
    if least["mean"] < -tolerance:
        return (
            f"Freeze nothing: every cell that saves loses more than {points(tolerance)} on average "
            f"(the least: {points(least['mean'])}), and further seeds are not likely to change that."
        )
    return (
        f"Not decidable: {least['freeze']} is within {points(tolerance)} on average, but not by enough, or a cell that "
        "freezes less is not, which speaks for chance; further seeds are not likely to help."
    )


def _share(row: Row) -> str:
    """`52 % (49 to 55 %)`; without ends where they are unknown or the same."""
    text, low, high = f"{100 * row['saved']:.0f} %", row["saved_low"], row["saved_high"]
    if pd.isna(low) or pd.isna(high) or low == high:
        return text
    return f"{text} ({100 * low:.0f} to {100 * high:.0f} %)"


def _about(row: Row) -> str:
    return f"About {number(int(row['further_seeds']), 'more seed')}"

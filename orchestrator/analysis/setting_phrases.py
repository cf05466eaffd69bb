"""Phrases about one setting: what it loses and saves, what that rests on, and what would decide it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from orchestrator.config.quantities import amount

Row = Mapping[str, Any]  # a row of `Decision.table`, or of `decide.loss_table`


def conditions(row: Row) -> tuple[str, str]:
    """Two sentences: which runs the loss holds for, with the collapses seen, and which bad runs seeds may miss."""
    text = f"It holds for runs that do not collapse: {row['collapses']}"
    if row["baseline_collapsed"]:
        text += f"; of the baseline {row['baseline_collapsed']} of {amount(int(row['baseline_runs']), 'run')}"
    if row["collapsed"] or row["baseline_collapsed"]:
        text += f"; over all runs it loses {row['loss_all']:z.2f} points"
    if row["broken"]:
        text += f"; {amount(int(row['broken']), 'run')} of this setting failed"
    runs = amount(int(row["n_run"]), "seed")
    return f"{text}.", f"Bad runs that are rare and no collapse are not seen in {runs}."


def collapses_text(row: Row) -> str:
    """`1 of 5 runs collapsed, of the baseline 0 of 5 runs; over all runs it loses 3.2 points`."""
    base = f"{row['baseline_collapsed']} of {amount(int(row['baseline_runs']), 'run')}"
    return f"{row['collapses'].capitalize()}, of the baseline {base}; over all runs it loses " + (
        f"{row['loss_all']:z.2f} points."
    )


def too_few_seeds_text(row: Row) -> str:
    """`3 seeds are too few for an interval; differences so far 0.9, 1.9, 2.0 points`."""
    values = ", ".join(f"{loss:z.1f}" for loss in row["so_far"])
    return f"{row['why_none']}; differences so far {values} points"


def loss_phrase(row: Row) -> str:
    """`loses 0.39 points (-0.04 to 0.95)`, `gains 0.39 points (loss -0.95 to -0.04)`, `shows no loss (-0.39 points,
    -0.95 to 0.04)`: a gain is one only where its whole interval is.
    """
    return loss_text(row, 2)


def loss_text(row: Row, digits: int) -> str:
    """`loss_phrase` with this many decimals, from `loss`, `low` and `high`, in points."""
    mean, ends = row["loss"], (row["low"], row["high"])
    interval = f"{ends[0]:z.{digits}f} to {ends[1]:z.{digits}f}" if all(map(math.isfinite, ends)) else ""
    if mean >= -0.5 / 10**digits:  # what prints as 0 is no gain
        return f"loses {abs(mean):.{digits}f} points{f' ({interval})' if interval else ''}"
    if interval and ends[1] < 0:
        return f"gains {abs(mean):.{digits}f} points (loss {interval})"
    return f"shows no loss ({mean:z.{digits}f} points{f', {interval}' if interval else ''})"


def basis(row: Row, split: str = "dev") -> str:
    """`10 seeds, 500 dev sentences`, `10 seeds, on this dev set`."""
    n = row["n_sentences"]
    sentences = f"on this {split} set" if pd.isna(n) else f"{n:,} {split} {row['unit']}"
    if not pd.isna(row["n_documents"]):
        sentences += f" of {amount(int(row['n_documents']), 'document')}"
    if not pd.isna(row["n_folds"]):
        sentences = f"{row['n_folds']} folds of {row['n_sentences']:,} examples"
    return f"{amount(int(row['n_pairs']), 'seed')}, {sentences}"


def loss_and_basis(row: Row) -> str:
    """`loses 0.39 points (loss -0.04 to 0.95; 3 seeds, 200 dev sentences)`."""
    text, has_interval = loss_phrase(row), bool(math.isfinite(row["low"]) and math.isfinite(row["high"]))
    return f"{text[:-1]}; {basis(row)})" if has_interval or text.endswith(")") else f"{text} ({basis(row)})"


def share_text(row: Row) -> str:
    """`52 % (49 to 55 %)`, `1.3 %`; without ends where they are unknown or would look the same."""
    digits = 0 if abs(row["saved"]) >= 0.1 else 1
    saved, *ends = (f"{100 * share:.{digits}f}" for share in (row["saved"], row["saved_low"], row["saved_high"]))
    if pd.isna(row["saved_low"]) or pd.isna(row["saved_high"]) or ends == [saved, saved]:
        return f"{saved} %"
    return f"{saved} % ({ends[0]} to {ends[1]} %)"


def saves_text(row: Row) -> str:
    """`saves 12 % of the training FLOPs and 20 % of the training time`; empty if nothing is known."""
    costs = {"training FLOPs": row.get("saved_flops"), "training time": row.get("saved_time")}
    shares = {name: round(100 * share) for name, share in costs.items() if share is not None and not pd.isna(share)}
    saved = [f"{share} % of the {name}" for name, share in shares.items() if share > 0]
    more = [f"takes {-share} % more {name}" for name, share in shares.items() if share < 0]
    return ", but ".join([*([f"saves {' and '.join(saved)}"] if saved else []), *more])


def items_of(row: Row) -> str:
    """The items that the interval samples besides seeds: examples (`n_folds`), documents (`n_documents`), sentences."""
    if not pd.isna(row["n_folds"]):
        return "examples"
    return f"dev {row['unit']}" if pd.isna(row["n_documents"]) else "dev documents"


def takes_text(row: Row) -> str:
    """`4 more seeds` where most of the variance is theirs, else `600 more dev sentences or 4 more seeds`; empty where
    neither would do.
    """
    seeds = "" if _is_none(row["further_seeds"]) else amount(int(row["further_seeds"]), "more seed")
    if seeds and row["seeds_share"] >= 0.5:
        return seeds
    items = "" if _is_none(row["further_sentences"]) else f"{int(row['further_sentences']):,} more {items_of(row)}"
    return " or ".join(filter(None, (items, seeds)))


def _is_none(count: Any) -> bool:
    return bool(pd.isna(count)) or count <= 0

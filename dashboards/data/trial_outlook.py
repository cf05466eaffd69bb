"""How a trial of a snapshot will end, told from its own curve and from the complete ones of its objective group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dashboards.data.frames import Snapshot
from orchestrator.forecast.curve import Outlook, outlook
from orchestrator.forecast.curve_alike import MOST
from orchestrator.forecast.curve_values import Curve
from trials.spec import TrialSpec

_SHOWN = {"running", "missing", "completed"}  # of others an end by itself is past, or not to be expected


def trial_outlook(snapshot: Snapshot, row: Mapping[str, Any], epochs: pd.DataFrame) -> Outlook | None:
    """What may become of a trial.

    Args:
        snapshot: Its.
        row: That of the trial, with its `sweep`: `Snapshot.trial`.
        epochs: Its evaluations: `Snapshot.epochs`.

    Returns:
        None where nothing is known, or where the trial has failed.
    """
    curve = next(iter(_curves(epochs)), None)
    if row["state"] not in _SHOWN or curve is None:
        return None
    spec = snapshot.cells[row["cell"]].spec
    trials = snapshot.sweeps[row["sweep"]].trials
    others = _curves(snapshot.epochs(_complete(snapshot, trials, spec, row)))
    return outlook(curve, spec.optim.epochs, list(others), anneals=spec.optim.schedule == "linear")


def _complete(snapshot: Snapshot, trials: pd.DataFrame, spec: TrialSpec, row: Mapping[str, Any]) -> pd.DataFrame:
    """The newest other complete trials of its objective group, planned epochs and schedule."""
    done = trials[(trials["state"] == "completed") & (trials["group"] == row["group"])]
    plan = (spec.optim.epochs, spec.optim.schedule)
    plans = {cell: snapshot.cells[cell].spec.optim for cell in done["cell"].unique()}
    alike = [cell for cell, optim in plans.items() if (optim.epochs, optim.schedule) == plan]
    chosen = done[done["cell"].isin(alike) & (done["trial_id"] != row["trial_id"])]
    return chosen.sort_values("time", kind="stable").tail(MOST)


def _curves(epochs: pd.DataFrame) -> Iterator[Curve]:
    """The curve of each trial that has a score."""
    rows = epochs[np.isfinite(epochs["score"]) & (epochs["epoch"] > 0)].drop_duplicates(["trial_id", "epoch"])
    for _, points in rows.groupby("trial_id", sort=False):
        ordered = points.sort_values("epoch")
        yield Curve(tuple(ordered["epoch"].tolist()), tuple(ordered["score"].tolist()))

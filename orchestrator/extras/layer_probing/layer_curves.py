"""Three curves over the depth of an encoder: what a linear probe reads, how far training moves, what freezing loses.

Depth k stands for the output of the first k layers (0: of the embeddings); for drift, for the k-th layer itself; for a
loss, for a freeze of the first k layers and the embeddings; of these layers alone where a sweep trains the embeddings.

Ids of states and probes say what the probes of a setting depend on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from orchestrator.analysis.decide import loss_table
from orchestrator.analysis.describe import mean_interval
from orchestrator.analysis.rows import COMPLETED, ROUNDING, Floats
from orchestrator.analysis.two_way import interval
from orchestrator.config.quantities import POINTS, counted
from trials.spec import TrialSpec

VERSION = 1  # of the probes: increment it when the same key would give others


def states_key(spec: TrialSpec) -> str:
    """A digest of everything but the train subset that probes depend on: settings with the same key share one pass."""
    return _digest(_content(spec))


def probe_id(spec: TrialSpec) -> str:
    """A digest of everything but the seed of the train subset that probes depend on; whatever is frozen."""
    return _digest([*_content(spec), spec.train_size])


def subset_seed(spec: TrialSpec) -> int:
    """The seed that draws a trial's train subset, and so the one of its probes."""
    return spec.seed if spec.subset_seed is None else spec.subset_seed


def _content(spec: TrialSpec) -> list[Any]:
    recipe = [spec.task, spec.score, spec.max_length, spec.lowercase, spec.precision]
    return [VERSION, spec.data.content(), spec.model.revision, *recipe]


def _digest(content: list[Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


_SETTING = ("probe_id", "baseline", "task", "corpus", "model", "train_size", "setup", "metric", "n_layers")
COLUMNS = [
    *_SETTING, "depth", "probe", "probe_low", "probe_high", "control", "selectivity", "selectivity_low",
    "selectivity_high", "n_probes", "drift", "drift_low", "drift_high", "cka", "n_drifts", "loss", "loss_low",
    "loss_high", "n_pairs",
]  # fmt: skip


NOTHING = -1  # the depth of a setting in which no freeze is within a tolerance


class Mean(NamedTuple):
    """A mean with the ends of its 95 % interval, NaN where there is none."""

    mean: float
    low: float
    high: float


def layer_curves(
    frame: pd.DataFrame, specs: Mapping[str, TrialSpec], probes: pd.DataFrame, drifts: pd.DataFrame
) -> pd.DataFrame:
    """One row a setting of the baseline and depth, in the order of the frame. What was not measured is NaN.

    Columns: those that tell settings apart, `depth`; `probe` (score on dev, mean over train subsets), `control` (of
    control labels), `selectivity`, `n_probes` (train subsets); `drift` (relative change of the k-th layer's weights,
    mean over the baseline's seeds), `cka`, `n_drifts`; `loss` (of the score against the baseline), `n_pairs`. Ends are
    those of 95 % intervals: of probes over train subsets and sentences, of drift over seeds, of losses those that
    decide (`decide.loss_table`).

    Args:
        frame: As of `trial_frame`, with `sentences`; trials need not have run.
        specs: A spec of each cell.
        probes: Rows of the store's table of that name.
        drifts: Likewise.
    """
    if not len(frame):
        return pd.DataFrame(columns=COLUMNS)
    of_loss = _losses(frame)
    by_probe = dict(iter(probes.groupby("probe_id")))
    done = frame[frame["state"] == COMPLETED] if "state" in frame.columns else frame
    rows = []
    for setting, cells in _settings(frame, specs):
        baseline = set(done.loc[done["cell"] == setting["baseline"], "trial_id"])
        moved = drifts[drifts["trial_id"].isin(baseline)]
        read = by_probe.get(setting["probe_id"], probes.iloc[:0])
        for depth in range(int(setting["n_layers"]) + 1):
            loss = next((of_loss[cell] for cell in cells.get(depth, ()) if cell in of_loss), None)
            rows.append(
                {
                    **setting,
                    "depth": depth,
                    **_probe(read[read["depth"] == depth]),
                    **_drift(moved[moved["depth"] == depth]),
                    **(loss or {"n_pairs": 0}),
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def deepest_within(at: pd.DataFrame, column: str, limit: float) -> int:
    """The deepest depth up to which no value exceeds the limit; NOTHING if the first one does."""
    within = at[column].to_numpy(dtype=np.float64) <= limit + ROUNDING
    n = len(within) if within.all() else int(np.argmin(within))
    return int(at["depth"].iloc[n - 1]) if n else NOTHING


def findings(at: pd.DataFrame, tolerance: float) -> dict[str, str]:
    """What the curves `probe`, `drift` and `loss` of one setting show, a short sentence each.

    Args:
        at: The depths of the setting, as of `layer_curves`.
        tolerance: Acceptable loss, in the unit of the score.
    """
    sentences = {
        "probe": "Not probed yet",
        "drift": "Movement unknown: no stored weights",
        "loss": "Loss unknown: no freeze has completed",
    }
    for curve, template in (("probe", "Knows most after {}"), ("drift", "Training moves {} most")):
        if at[curve].notna().any():
            most = at.loc[at[curve].idxmax()]
            sentences[curve] = f"{template.format(_layer(most['depth']))}: {100 * most[curve]:.1f} %"
    lost = at[at["loss"].notna()]
    limit = counted(100 * tolerance, "point")
    depth, losses = deepest_within(lost, "loss", tolerance) if len(lost) else NOTHING, lost.set_index("depth")["loss"]
    further = [f"{100 * loss:.1f} at {_layer(k)}" for k, loss in losses.items() if k > depth][:1]
    if depth != NOTHING:
        sentences["loss"] = ", ".join([f"Loses ≤ {limit} up to {_layer(depth)}", *further])
    elif further:
        sentences["loss"] = f"Loses > {limit}: {further[0]}"
    return sentences


def _layer(depth: float) -> str:
    return f"layer {depth:g}" if depth else "the embeddings"


def _settings(
    frame: pd.DataFrame, specs: Mapping[str, TrialSpec]
) -> Iterator[tuple[dict[str, Any], dict[int, list[str]]]]:
    """Each setting of the baseline, and its cells that freeze from the embeddings up, by depth."""
    first = frame.drop_duplicates("cell")
    first = first[[specs[cell].thaw_every is None for cell in first["cell"]]]  # what unfreezes has no depth
    frozen = first[first["cell"] != first["baseline"]]
    alone = first[~first["baseline"].isin(frozen["baseline"])]
    for (baseline, setup), cells in pd.concat([frozen, alone]).groupby(["baseline", "setup"], sort=False):
        row = cells.iloc[0]
        below = cells[[cell != baseline and specs[cell].freeze.is_from_below for cell in cells["cell"]]]
        with_embeddings = below["embeddings"].astype(bool)
        below = below[with_embeddings] if with_embeddings.any() else below
        by_depth = {int(depth): rows["cell"].tolist() for depth, rows in below.groupby("depth")}
        own = {key: row[key] for key in ("task", "corpus", "model", "train_size", "metric", "n_layers")}
        yield {"probe_id": probe_id(specs[row["cell"]]), "baseline": baseline, "setup": setup, **own}, by_depth


def _losses(frame: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By cell, as shares of 1: the unit of the curves beside them, and of `layers --json`."""
    table = loss_table(frame)
    table = table[table["n_pairs"] > 0]
    ends = pd.DataFrame(
        {
            "loss": table["loss"] / POINTS,
            "loss_low": table["low"] / POINTS,
            "loss_high": table["high"] / POINTS,
            "n_pairs": table["n_pairs"],
        }
    )
    return dict(zip(table["cell"], ends.to_dict("records"), strict=True))


def _probe(rows: pd.DataFrame) -> dict[str, float]:
    if not len(rows):
        return {"n_probes": 0}
    score = mean_of_scores(rows["score"], rows["contributions"])
    selectivity = mean_of_scores(rows["selectivity"], rows["selectivity_contributions"])
    return {
        "probe": score.mean,
        "probe_low": score.low,
        "probe_high": score.high,
        "control": float(rows["control_score"].mean()),
        "selectivity": selectivity.mean,
        "selectivity_low": selectivity.low,
        "selectivity_high": selectivity.high,
        "n_probes": len(rows),
    }


def mean_of_scores(scores: pd.Series, contributions: pd.Series) -> Mean:
    """The mean of scores (train subsets,), with its interval over subsets and sentences (`two_way`).

    Args:
        scores: Of each train subset.
        contributions: What each sentence contributes to each; empty arrays leave an interval over subsets alone.
    """
    arrays = [np.ravel(np.asarray(of_subset, dtype=np.float64)) for of_subset in contributions]  # null is one NaN
    has_sentences = len({len(array) for array in arrays}) == 1 and len(arrays[0]) > 1
    values: Floats = np.stack(arrays) if has_sentences else scores.to_numpy(dtype=np.float64)
    loss = interval(-values)  # it guards the upper end of a loss
    ends = (np.nan, np.nan) if loss.low is None or loss.high is None else (-loss.high, -loss.low)
    return Mean(-loss.mean, *ends)


def _drift(rows: pd.DataFrame) -> dict[str, float]:
    if not len(rows):
        return {"n_drifts": 0}
    values = rows["weight_change"].to_numpy(dtype=np.float64)
    low, high = mean_interval(values, "weight_change") if len(values) > 1 else (np.nan, np.nan)
    cka = float(rows["cka"].astype("float64").mean())
    return {"drift": float(values.mean()), "drift_low": low, "drift_high": high, "cka": cka, "n_drifts": len(rows)}

"""The tidy frame that every analysis takes: one row per trial, with its cell, its seed and what it measured.

`best_rate_trials` keeps each setting at its own best learning rate, as a frozen model often needs a higher one; one
rate for all depths would bias the comparison. The rates of a setting are compared by mean dev score on the first
seeds of the sweep, and the answer uses the other seeds only: no run both chooses a rate and judges it. The baseline
also gets its own best rate, and all settings are paired with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.analysis.cells import CELL_COLUMNS, cell_columns, setup_labels
from orchestrator.analysis.losses import has_collapsed
from orchestrator.analysis.rows import COMPLETED, numbers
from orchestrator.config.quantities import amount
from trials.record import MEASURED, MEMORY, TRAINING_COST
from trials.spec import TrialSpec

FEW = 5  # in a sweep with fewer seeds, one of them chooses the rates instead of two


def best_rate_trials(frame: pd.DataFrame, specs: Mapping[str, TrialSpec], n_seeds: int | None = None) -> pd.DataFrame:
    """The trials of each setting at its best rate, with the seeds that did not choose the rate.

    `setup` says which rates were chosen, and on which seeds; `baseline` is the baseline at its best rate.

    Args:
        frame: A frame as `trial_frame` returns it.
        specs: A spec of each cell.
        n_seeds: How many of the first seeds choose; None for two, or one where the sweep has fewer than five.

    Raises:
        ValueError: A setting has one rate only, everywhere, or no seed is left to answer with.
    """
    settings = {cell: spec.with_rate(1.0).cell_id for cell, spec in specs.items()}
    rates = frame["cell"].map(settings).groupby(frame["cell"]).first()
    if len(set(rates.values)) == len(rates):
        raise ValueError("every setting has one learning rate; give `optim.lr` several under `space`")
    seeds = sorted(frame["seed"].unique().tolist())
    n = (2 if len(seeds) >= FEW else 1) if n_seeds is None else n_seeds
    if not 0 < n < len(seeds):
        raise ValueError(f"{amount(len(seeds), 'seed')}: {n} to choose the rates leave none to answer with")
    # The first seeds of the plan, not the best ones: which they are is fixed before any score is known.
    choosing = frame[frame["seed"].isin(seeds[:n]) & (frame["state"] == COMPLETED)]
    scores = pd.DataFrame({"cell": choosing["cell"], "score": numbers(choosing, "score")}).groupby("cell")["score"]
    means, runs = scores.mean(), scores.size()
    best: dict[str, str] = {}  # by setting: the cell at its best rate; of equal ones the lowest rate
    for cell in sorted(means.index, key=lambda cell: specs[cell].optim.lr):
        so_far = best.get(settings[cell])
        # A rate that lacks a choosing seed may have been lucky on the rest.
        if runs[cell] == n and (so_far is None or means[cell] > means[so_far]):
            best[settings[cell]] = cell
    kept = frame[frame["cell"].isin(set(best.values())) & ~frame["seed"].isin(seeds[:n])]
    baselines = {cell: best.get(specs[cell].with_rate(1.0).baseline_id, "") for cell in best.values()}
    return kept.assign(
        baseline=kept["cell"].map(baselines),
        setup=kept["cell"].map({cell: _setup(cell, best, baselines, specs, seeds[:n]) for cell in best.values()}),
    )


def with_own_rates(frame: pd.DataFrame, specs: Mapping[str, TrialSpec]) -> pd.DataFrame:
    """With one `baseline` and `setup`, where every setting has a learning rate of its own and one baseline is for all.

    A setting's own baseline, at its rate, is not among the trials then; any other frame stays as it is.
    """
    settings = [spec.with_rate(1.0).cell_id for spec in specs.values()]
    baselines = {spec.with_rate(1.0).cell_id: cell for cell, spec in specs.items() if spec.freeze.is_baseline}
    orphans = any(spec.baseline_id not in specs for spec in specs.values())
    same = {spec.with_rate(1.0).baseline_id for spec in specs.values()}
    if not orphans or len(set(settings)) < len(settings) or len(baselines) != 1 or set(baselines) != same:
        return frame
    return frame.assign(baseline=next(iter(baselines.values())), setup=f"each at its own lr ({_rates(specs.values())})")


def _setup(
    cell: str, best: Mapping[str, str], baselines: Mapping[str, str], specs: Mapping[str, TrialSpec], seeds: list[int]
) -> str:
    """`each at its best lr (none 5e-05, first 2+E 0.0001), chosen on the seeds 0, 1, which the answer does not use`."""
    rates = _rates(specs[other] for other in best.values() if baselines[other] == baselines[cell])
    which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return f"each at its best lr ({rates}), chosen on {which}, which the answer does not use"


def _rates(specs: Iterable[TrialSpec]) -> str:
    """`none 5e-05, first 2+E 0.0001`."""
    in_order = sorted(specs, key=lambda spec: spec.freeze.extent)
    return ", ".join(f"{spec.freeze.label} {spec.optim.lr:g}" for spec in in_order)


# Columns in which two trials must agree for a measured cost to compare, and what their values are called.
CONDITIONS = {
    "device": "devices",
    "gpus": "shares of a GPU",
    "threads": "threads",
    "accumulation": "numbers of parts of a batch",
    "worker_slots": "numbers of trials at the same time",
    "padding_free": "kinds of batches (1 without padding, 0 padded)",
    "step_mode": "ways of running steps",
}
TEXTS = ("device", "step_mode")  # those of them that are no numbers


def trial_frame(specs: Sequence[TrialSpec], rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row a spec, in their order; a trial without a row in the store has no state. Columns: see `full_frame`."""
    by_id: dict[str, Mapping[str, Any]] = {row["trial_id"]: row for row in rows}
    of_specs = [by_id.get(spec.trial_id, {}) for spec in specs]
    columns: dict[str, list[Any]] = {
        "cell": [spec.cell_id for spec in specs],
        "trial_id": [spec.trial_id for spec in specs],
        "seed": [spec.seeds.key for spec in specs],
        **{name: [row.get(name) for row in of_specs] for name in ("state", *CONDITIONS, *MEASURED)},
    }
    return full_frame(pd.DataFrame(columns, dtype=None if specs else object), {spec.cell_id: spec for spec in specs})


def full_frame(trials: pd.DataFrame, specs: Mapping[str, TrialSpec]) -> pd.DataFrame:
    """The frame that every analysis, page and report takes.

    Args:
        trials: A row a trial: `cell`, `trial_id`, `seed` (`Seeds.key`), `state`, and `CONDITIONS` and
            `record.MEASURED` as in the store, any of the last two or none.
        specs: A spec of each cell, and no others.

    Returns:
        The same rows with the columns of `cells.cell_columns`, `setup` (see `cells.setup_labels`), `score` for
        `best_score` (on dev), `training_cost_s`, `collapsed` (1 or 0, NaN if not recorded), and all of `CONDITIONS` and
        `record.MEASURED`: float, NaN if not recorded.
    """
    setups = setup_labels(specs)
    columns = [cell_columns(spec) | {"setup": setups[cell]} for cell, spec in specs.items()]
    shared = pd.DataFrame(columns, columns=[*CELL_COLUMNS, "setup"])
    frame = trials.merge(shared, on="cell", how="left").rename(columns={"best_score": "score"})
    for name in (*MEASURED, *CONDITIONS):
        name = "score" if name == "best_score" else name
        if name not in frame:
            frame[name] = None if name in TEXTS else np.nan
        if name not in TEXTS:
            frame[name] = frame[name].astype("float64")
    frame["padding_free"] = frame["padding_free"].fillna(0.0)
    frame["step_mode"] = frame["step_mode"].fillna("padded")
    if len(frame):
        frame = with_own_rates(frame, specs)
    return with_collapses(with_costs(frame))


def with_costs(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `training_cost_s`, and without what was recorded as the peak memory of trials on a CPU.

    The training cost is `train_s` + `prefix_s`: seconds of optimiser steps and of the frozen states that they start
    from. A trial that used no stored states has no `prefix_s` and pays nothing for them.

    Memory that a store recorded on a CPU is the resident memory of a worker that had run other trials before.
    """
    # No states were stored: the time is in `train_s`, and adding nothing is right.
    prefix = np.nan_to_num(numbers(frame, "prefix_s")) if "prefix_s" in frame.columns else 0.0
    frame = frame.assign(**{TRAINING_COST: numbers(frame, "train_s") + prefix})
    if MEMORY in frame.columns and len(frame):
        frame[MEMORY] = np.where(ran_on_cpu(frame), np.nan, numbers(frame, MEMORY))
    return frame


def ran_on_cpu(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """(trials,) whether each ran on a CPU, by `device`; False where that is unknown."""
    is_cpu: npt.NDArray[np.bool_] = frame["device"].astype("str").str.startswith("cpu", na=False).to_numpy(dtype=bool)
    return is_cpu


def with_collapses(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `collapsed`: 1 for a trial that learned nothing, 0 for another, NaN if that was not recorded."""
    names = ("score", "constant_score", "loss_fall")
    values = (numbers(frame, name) if name in frame.columns else np.full(len(frame), np.nan) for name in names)
    return frame.assign(collapsed=has_collapsed(*values))


def with_sentences(frame: pd.DataFrame, columns: Mapping[str, Mapping[str, np.ndarray | None]]) -> pd.DataFrame:
    """The frame with three columns of arrays (sentences,): `sentences`, the contribution of each to the trial's score;
    `documents`, the number of its document from 0; and `words`, its words, where the score is a share of all words.

    `columns` has them by name and trial id; None stands where they are not known.
    """
    by_name = {name: columns.get(name, {}) for name in ("sentences", "documents", "words")}
    trials = frame["trial_id"].to_numpy()
    return frame.assign(
        **{
            name: pd.Series([values.get(i) for i in trials], index=frame.index, dtype=object)
            for name, values in by_name.items()
        }
    )

"""Each setting at its own best learning rate: a frozen model often wants a higher one, so one for all depths is a bias.

The rates of a setting are compared on the first seeds of the sweep, by their mean dev score, and the answer is made
from the other seeds alone: what chose a rate takes no part in what it is judged by. The baseline has its own best rate,
too, and all settings are paired with it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from orchestrator.analysis.rows import COMPLETED, numbers
from orchestrator.config.quantities import counted
from trials.spec import TrialSpec

FEW = 5  # seeds of a sweep, below which one of them chooses
RATE = "lr"


def at_best_rate(frame: pd.DataFrame, specs: Mapping[str, TrialSpec], n_seeds: int | None = None) -> pd.DataFrame:
    """The trials of each setting at its best rate, under the seeds that did not choose it.

    `setup` says which rates were chosen, and on which seeds; `baseline` is the one at its best rate.

    Args:
        frame: As of `trial_frame`.
        specs: A spec of each cell.
        n_seeds: How many of the first seeds choose; None for two, or one where the sweep has fewer than five.

    Raises:
        ValueError: A setting has one rate only, everywhere, or no seed is left to answer with.
    """
    settings = {cell: spec.at_rate(1.0).cell_id for cell, spec in specs.items()}
    rates = frame["cell"].map(settings).groupby(frame["cell"]).first()
    if len(set(rates.values)) == len(rates):
        raise ValueError("every setting has one learning rate; give `optim.lr` several under `space`")
    seeds = sorted(frame["seed"].unique().tolist())
    n = (2 if len(seeds) >= FEW else 1) if n_seeds is None else n_seeds
    if not 0 < n < len(seeds):
        raise ValueError(f"{counted(len(seeds), 'seed')}: {n} to choose the rates leave none to answer with")
    choosing = frame[frame["seed"].isin(seeds[:n]) & (frame["state"] == COMPLETED)]
    scores = pd.DataFrame({"cell": choosing["cell"], "score": numbers(choosing, "score")}).groupby("cell")["score"]
    means, runs = scores.mean(), scores.size()
    best: dict[str, str] = {}  # by setting: the cell at its best rate; of equal ones the lowest rate
    for cell in sorted(means.index, key=lambda cell: specs[cell].optim.lr):
        known = best.get(settings[cell])
        if runs[cell] == n and (known is None or means[cell] > means[known]):
            best[settings[cell]] = cell
    kept = frame[frame["cell"].isin(set(best.values())) & ~frame["seed"].isin(seeds[:n])]
    baselines = {cell: best.get(_unfrozen(specs[cell]), "") for cell in best.values()}
    return kept.assign(
        baseline=kept["cell"].map(baselines),
        setup=kept["cell"].map({cell: _said(cell, best, baselines, specs, seeds[:n]) for cell in best.values()}),
    )


def with_own_rates(frame: pd.DataFrame, specs: Mapping[str, TrialSpec]) -> pd.DataFrame:
    """The frame with one baseline, where every setting has a learning rate of its own and one baseline is for all.

    A setting's own baseline, at its rate, is not among the trials then; any other frame stays as it is.
    """
    settings = [spec.at_rate(1.0).cell_id for spec in specs.values()]
    baselines = {spec.at_rate(1.0).cell_id: cell for cell, spec in specs.items() if spec.freeze.is_baseline}
    orphans = any(spec.baseline_id not in specs for spec in specs.values())
    same = {spec.at_rate(1.0).baseline_id for spec in specs.values()}
    if not orphans or len(set(settings)) < len(settings) or len(baselines) != 1 or set(baselines) != same:
        return frame
    rates = ", ".join(f"{s.freeze.label} {s.optim.lr:g}" for s in sorted(specs.values(), key=_order))
    return frame.assign(baseline=next(iter(baselines.values())), setup=f"each at its own lr ({rates})")


def _unfrozen(spec: TrialSpec) -> str:
    return spec.at_rate(1.0).baseline_id


def _said(
    cell: str, best: Mapping[str, str], baselines: Mapping[str, str], specs: Mapping[str, TrialSpec], seeds: list[int]
) -> str:
    """`each at its best lr (none 5e-05, first 2+E 0.0001), chosen on the seeds 0, 1, which the answer does not use`."""
    same = sorted((specs[other] for other in best.values() if baselines[other] == baselines[cell]), key=_order)
    rates = ", ".join(f"{spec.freeze.label} {spec.optim.lr:g}" for spec in same)
    which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return f"each at its best lr ({rates}), chosen on {which}, which the answer does not use"


def _order(spec: TrialSpec) -> tuple[int, bool]:
    return spec.freeze.depth, spec.freeze.embeddings

"""Whether what is cheap to know of a layer predicts what freezing up to it loses.

Three predictors of the curve of losses, and the depth itself for comparison, as any rising curve ranks the depths of a
rising one:

- `depth`: the share of the layers that are frozen.
- `probe`: how far the probe of depth k lies below the best one of any shallower depth: what the layers have lost.
- `drift`: the share of all movement of the baseline's weights that lies in what is frozen.
- `cka`: 1 - CKA of the output of depth k before and after training: what freezing up to there holds fixed (0 where
  that output is the same for all texts).

Two questions are asked of each. Does it rank the depths as their losses do (Spearman's correlation over depths), also
step by step, where the common rise no longer helps? And how far from the deepest freeze within a tolerance is the depth
that it names, with a threshold that was chosen on the other corpora?
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from orchestrator.analysis.layer_curves import deepest_within
from orchestrator.analysis.moments import sample_moments, t_ends
from orchestrator.analysis.rows import Floats

PREDICTORS = ("depth", "probe", "drift", "cka")
LEAST_DEPTHS = 4  # with losses, for a correlation over them
_KEYS = ["probe_id", "baseline", "setup"]


def predictor_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """The depths of `layer_curves` that have a loss, of settings with `LEAST_DEPTHS` of them, with the predictors.

    Further columns: `p_` and the name of each predictor, NaN where a setting lacks what it needs; `setting`, a number.
    """
    found: list[pd.DataFrame] = []
    for _, rows in curves.groupby(_KEYS, sort=False):
        known = rows["loss"].notna().to_numpy()
        if known.sum() >= LEAST_DEPTHS:
            moved, probe = rows["drift"].cumsum(), rows["probe"]
            made = rows.assign(
                p_depth=rows["depth"] / rows["n_layers"],
                p_probe=probe.cummax() - probe,
                p_drift=moved / moved.iloc[-1] if moved.iloc[-1] > 0 else np.nan,
                p_cka=(1 - rows["cka"]).fillna(0.0) if rows["cka"].notna().any() else np.nan,
                setting=len(found),
            )
            found.append(made[known])
    if not found:
        return curves.iloc[:0].assign(setting=0, **{f"p_{predictor}": np.nan for predictor in PREDICTORS})
    return pd.concat(found, ignore_index=True)


def rank_correlations(made: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and predictor that is known at all of its depths.

    Returns:
        `setting`, `corpus`, `train_size`, `predictor`, `over_depths` (Spearman's correlation with the losses),
        `over_steps` (of what a further layer adds to both). A constant predictor has correlation 0.
    """
    rows = []
    for setting, at in made.groupby("setting", sort=False):
        losses = at["loss"].to_numpy(dtype=np.float64)
        for predictor in PREDICTORS:
            values = at[f"p_{predictor}"].to_numpy(dtype=np.float64)
            if np.isfinite(values).all():
                rows.append(
                    {
                        "setting": setting,
                        "corpus": at["corpus"].iloc[0],
                        "train_size": at["train_size"].iloc[0],
                        "predictor": predictor,
                        "over_depths": _spearman(values, losses),
                        "over_steps": _spearman(np.diff(values), np.diff(losses)),
                    }
                )
    return pd.DataFrame(rows, columns=["setting", "corpus", "train_size", "predictor", "over_depths", "over_steps"])


def _spearman(a: Floats, b: Floats) -> float:
    a, b = np.round(a, 12), np.round(b, 12)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(stats.spearmanr(a, b).statistic)


def predicted_depths(made: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """The depth that each predictor names, with the threshold that is best on the settings of all other corpora.

    Args:
        made: As of `predictor_curves`.
        tolerance: Acceptable loss, in the unit of the score.

    Returns:
        One row a setting and predictor that is known in two corpora at least: `setting`, `corpus`, `train_size`,
        `n_layers`, `predictor`, `measured` (deepest freeze up to which no loss exceeds the tolerance; NOTHING for
        none), `predicted`, `error` (layers between them).
    """
    rows = []
    for predictor in PREDICTORS:
        known = made.groupby("setting")[f"p_{predictor}"].transform(lambda values: values.notna().all())
        settings = [at for _, at in made[known.astype(bool)].groupby("setting", sort=False)]
        for at in settings:
            others = [other for other in settings if other["corpus"].iloc[0] != at["corpus"].iloc[0]]
            if others:
                threshold = _best_threshold(others, predictor, tolerance)
                measured, predicted = (
                    deepest_within(at, "loss", tolerance),
                    deepest_within(at, f"p_{predictor}", threshold),
                )
                first = at.iloc[0]
                rows.append(
                    {
                        **{key: first[key] for key in ("setting", "corpus", "train_size", "n_layers")},
                        "predictor": predictor,
                        "measured": measured,
                        "predicted": predicted,
                        "error": abs(measured - predicted),
                    }
                )
    columns = ["setting", "corpus", "train_size", "n_layers", "predictor", "measured", "predicted", "error"]
    return pd.DataFrame(rows, columns=columns)


def _best_threshold(settings: list[pd.DataFrame], predictor: str, tolerance: float) -> float:
    """The threshold with the least total error on these settings, midway between values; the smallest of equals."""
    column = f"p_{predictor}"
    measured = [deepest_within(at, "loss", tolerance) for at in settings]
    values = np.unique(np.concatenate([at[column].to_numpy(dtype=np.float64) for at in settings]))
    options = [-np.inf, *((values[:-1] + values[1:]) / 2).tolist(), np.inf]
    errors = [
        sum(abs(deepest_within(at, column, limit) - truth) for at, truth in zip(settings, measured, strict=True))
        for limit in options
    ]
    return float(options[int(np.argmin(errors))])


def prediction_summary(curves: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """One row a predictor that is known somewhere, over corpora: settings of one corpus are averaged first.

    Columns: `predictor`, `corpora`, `settings`; `over_depths`, `over_steps` and `error` as of `rank_correlations` and
    `predicted_depths`, each with `_low` and `_high` of its 95 % interval over corpora (Student's t, cut at what is
    possible: correlations at -1 and 1, errors at 0; NaN for fewer than three).

    Args:
        curves: As of `layer_curves`, of any number of sweeps.
        tolerance: Acceptable loss, in the unit of the score.
    """
    made = predictor_curves(curves)
    ranks, depths = rank_correlations(made), predicted_depths(made, tolerance)
    rows = []
    for predictor in PREDICTORS:
        of_ranks, of_depths = (table[table["predictor"] == predictor] for table in (ranks, depths))
        if len(of_ranks):
            row = {"predictor": predictor, "corpora": of_ranks["corpus"].nunique(), "settings": len(of_ranks)}
            for name, table in (("over_depths", of_ranks), ("over_steps", of_ranks), ("error", of_depths)):
                mean, ends = _over_corpora(table, name)
                low, high = np.clip(ends, *((0, None) if name == "error" else (-1, 1)))
                row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
            rows.append(row)
    columns = [f"{name}{end}" for name in ("over_depths", "over_steps", "error") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=["predictor", "corpora", "settings", *columns])


def _over_corpora(table: pd.DataFrame, name: str) -> tuple[float, tuple[float, float]]:
    values: npt.NDArray[np.float64] = table.groupby("corpus")[name].mean().to_numpy(dtype=np.float64)
    if len(values) < 3:
        return (float(values.mean()) if len(values) else np.nan), (np.nan, np.nan)
    low, high = t_ends(sample_moments(values), 0.95)
    return float(values.mean()), (float(low[0]), float(high[0]))

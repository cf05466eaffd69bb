"""The settings in which the trials of a sweep differ, as columns that an analysis and a figure take."""

from __future__ import annotations

import pandas as pd

from dashboards.data.selection import Selection
from orchestrator.analysis.cells import setting, varying_settings

# Of two that determine each other, as depth and strategy often do, an analysis keeps the first.
LABELS = {
    "depth": "frozen layers",
    "strategy": "strategy",
    "embeddings": "embeddings",
    "train_size": "train size",
    "corpus": "corpus",
    "model": "model",
}
_NAMES = {"lr": "learning rate", "head_lr": "learning rate of the head", "lora": "adapters", "thaw_every": "unfreezing"}


def varied(selection: Selection) -> tuple[pd.DataFrame, dict[str, str]]:
    """The completed trials with a column for each setting that only some sweeps vary, and the name of each setting by
    its column; those of `LABELS` are always there.
    """
    done = selection.completed
    columns = varying_columns(selection, done) if "setup" in done and done["setup"].nunique() > 1 else {}
    return done.assign(**columns), LABELS | {key: setting_name(key) for key in columns}


def varying_columns(selection: Selection, trials: pd.DataFrame) -> dict[str, pd.Series]:
    """The settings in which some trials differ beyond those that every table has, by `set:` and their dotted names."""
    all_specs, cells = selection.snapshot.specs, trials["cell"].unique()
    specs = {cell: all_specs[cell] for cell in cells if cell in all_specs}
    keys = [key for key in varying_settings(specs.values()) if key != "model.name"]
    return {
        f"set:{key}": trials["cell"].map({cell: plain_setting(setting(spec, key)) for cell, spec in specs.items()})
        for key in keys
    }


def setting_name(key: str) -> str:
    """The name of a dotted setting for people; it may begin with `set:`."""
    last = key.removeprefix("set:").rpartition(".")[2]
    return _NAMES.get(last, last.replace("_", " "))


def plain_setting(value: object) -> object:
    """The value of a setting as a number or text."""
    return "default" if value is None else value if isinstance(value, (int, float)) else str(value)

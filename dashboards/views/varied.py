"""The settings in which the trials of a sweep differ, as columns that an analysis and a figure take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
NOTE_WIDTH = 50  # letters in a line of a note that fits a phone
_LAST = {"seed": "seed"}
_NAMES = {"lr": "learning rate", "head_lr": "learning rate of the head", "lora": "adapters", "thaw_every": "unfreezing"}


class Varied(NamedTuple):
    """Completed trials with a column for each setting.

    Attributes:
        trials: Rows of `Selection.completed` with further columns: the settings that only some sweeps vary.
        labels: Name of each setting by its column; those of `LABELS` and the seed are always there.
    """

    trials: pd.DataFrame
    labels: Mapping[str, str]


def varied(selection: Selection) -> Varied:
    """The completed trials of a selection."""
    done = selection.completed
    cells = done["cell"].unique()
    specs = {cell: selection.snapshot.specs[cell] for cell in cells if cell in selection.snapshot.specs}
    several = "setup" in done and done["setup"].nunique() > 1
    keys = [key for key in varying_settings(specs.values()) if key != "model.name"] if several else []
    columns = {
        key: done["cell"].map({cell: _plain(setting(spec, key)) for cell, spec in specs.items()}) for key in keys
    }
    labels = {key: _NAMES.get(last := key.rpartition(".")[2], last.replace("_", " ")) for key in keys}
    return Varied(done.assign(**columns), LABELS | labels | _LAST)


def _plain(value: object) -> object:
    return "default" if value is None else value if isinstance(value, (int, float)) else str(value)

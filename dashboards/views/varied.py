"""The settings in which the trials of a sweep differ, as columns that an analysis and a figure take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dashboards.data.selection import Selection
from orchestrator.analysis.cells import setting, varying_settings
from trials.settings import Seeds

# Of two that determine each other, as depth and strategy often do, an analysis keeps the first.
LABELS = {
    "depth": "frozen layers",
    "strategy": "strategy",
    "embeddings": "embeddings",
    "train_size": "train size",
    "corpus": "corpus",
    "model": "model",
}
ALL_SAME = "All completed trials have the same settings, so there is nothing to compare."
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

    @property
    def varying(self) -> list[str]:
        """The columns with more than one value; of those that group the trials alike, the first."""
        found: dict[bytes, str] = {}
        for column in self.labels:
            codes, known = pd.factorize(self.trials[column], use_na_sentinel=False)
            if len(known) > 1:
                found.setdefault(codes.tobytes(), column)
        return list(found.values())


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


def levels(values: pd.Series) -> list[object]:
    """The values of a setting in order: numbers by size, words in their order of appearance."""
    found = values.unique().tolist()
    return sorted(found) if all(isinstance(value, (bool, int, float)) for value in found) else found


def level_name(column: str, value: object) -> str:
    """A value of a setting as people write it."""
    if column == "embeddings":
        return "frozen" if value else "trained"
    if column == "seed":
        return Seeds.label_of(int(str(value)))
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value).replace("_", " ")


def evenly(scores: pd.Series, at_most: int) -> Sequence[int]:
    """Places of at most so many scores, evenly by rank, the best and the worst included; in order of score."""
    order = np.argsort(scores.to_numpy(dtype=np.float64), kind="stable")
    chosen = np.unique(np.linspace(0, len(order) - 1, min(at_most, len(order))).round().astype(int))
    places: list[int] = order[chosen].tolist()
    return places


def thinned(shown: int, n: int) -> str:
    """What a figure says that draws some of the trials; empty if it draws all."""
    return f"{shown:,} of {n:,} trials are drawn, evenly by score." if shown < n else ""

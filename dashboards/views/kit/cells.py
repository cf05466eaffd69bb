"""Which settings a figure shows, over which trials, and in what they differ.

A cell is a setting: everything that two trials have in common but the seed.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from dashboards.data.selection import Selection
from dashboards.views.kit.drawing import freeze_column, short
from orchestrator.analysis.cells import setting, varying_settings
from orchestrator.analysis.describe import describe_cells
from orchestrator.analysis.savings import COUNTED
from orchestrator.analysis.summary import statistics_of
from orchestrator.analysis.trial_frame import CONDITIONS
from orchestrator.config.quantities import amount

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


def with_varying_settings(selection: Selection) -> tuple[pd.DataFrame, dict[str, str]]:
    """The completed trials with a column `set:...` for each setting that only some sweeps vary, and the name of each
    setting by its column. The columns of `LABELS` are always there.
    """
    done = selection.completed
    columns = varying_columns(selection, done) if "setup" in done and done["setup"].nunique() > 1 else {}
    return done.assign(**columns), LABELS | {key: setting_name(key) for key in columns}


def varying_columns(selection: Selection, trials: pd.DataFrame) -> dict[str, pd.Series]:
    """By `set:` and dotted name, the settings in which `cell` of some trials differ, beyond those of every table."""
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


KEYS = ["train_size", "cell", "baseline", "freeze", "freeze_spec", "strategy", "depth", "embeddings", "n_layers"]
MAX_CELLS = 30  # in a figure that draws a line or a row per cell
_ORDER = ["train_size", "depth", "strategy", "embeddings", "cell"]


class Shown(NamedTuple):
    """What a figure or table shows, most often a row per cell.

    Attributes:
        note: What is left out, and why; empty if nothing is.
        value_name: What its score is called, e.g. ``dev accuracy``.
    """

    table: pd.DataFrame
    note: str = ""
    value_name: str = ""


def cells_of(selection: Selection) -> Shown:
    """Every cell of a selection over its completed trials, by train size, depth, strategy and embeddings.

    Columns: `KEYS`, those of `describe_cells`, `planned` (trials), and the label of each statistic of a plug-in.
    """
    trials = selection.trials
    described = describe_cells(trials, ["cell"], selection.column)  # grouping by all keys takes five times as long
    planned = trials["cell"].value_counts().rename("planned")
    table = trials[KEYS].drop_duplicates("cell").merge(described, on="cell")
    table = table.merge(planned, left_on="cell", right_index=True)
    own = {label: table["cell"].map(values) for label, values in statistics_of(selection.completed).items()}
    table = table.assign(**own)
    return Shown(table.sort_values(_ORDER, ignore_index=True), value_name=selection.value_name)


def shown_cells(trials: pd.DataFrame, at_most: int = MAX_CELLS) -> Shown:
    """The cells of the largest train sizes, at most `at_most`. A size is shown as a whole, unless the largest alone has
    too many. Columns: `KEYS`, in the order of `cells_of`.
    """
    cells = trials[KEYS].drop_duplicates("cell").sort_values(_ORDER, ignore_index=True)
    counts = cells["train_size"].value_counts().sort_index(ascending=False)
    fits = max(1, int((counts.cumsum() <= at_most).sum()))
    shown = counts.index[:fits]
    table = cells[cells["train_size"].isin(shown)].head(at_most).reset_index(drop=True)
    if len(table) == len(cells):
        return Shown(table)
    named = ", ".join(f"{size:,}" for size in sorted(shown)[:6]) + (", ..." if len(shown) > 6 else "")
    plural = "s" * (len(shown) != 1)
    sentence = f"{len(table)} of {len(cells)} settings are drawn: train size{plural} {named}."
    return Shown(table, f"{sentence} Select train sizes to see others.")


def completed_in_cells(trials: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The trials with `state` completed of the `cell` column of some cells."""
    return trials[(trials["state"] == "completed") & trials["cell"].isin(cells["cell"])]


def one_device(trials: pd.DataFrame, cost: str) -> Shown:
    """The trials that ran under the most frequent `trial_frame.CONDITIONS`, such as `device`: times, memory and energy
    of two devices do not compare. All trials, if the cost is counted.
    """
    if cost in COUNTED or not len(trials):
        return Shown(trials)
    device = _described_device(trials)
    counts = device.value_counts()
    unnamed = int(trials["device"].isna().sum())
    if not len(counts):
        return Shown(trials.iloc[:0], "No trial has its device recorded.")
    others = [f"{short(device)} ({amount(n, 'trial')})" for device, n in counts.iloc[1:].items()]
    others += [f"an unrecorded device ({amount(unnamed, 'trial')})"] * bool(unnamed)
    shown = trials[device == counts.index[0]]
    note = f"Only trials on {short(counts.index[0])} are drawn, not those on {', '.join(others)}." if others else ""
    return Shown(shown, note)


def _described_device(trials: pd.DataFrame) -> pd.Series:
    """(trials,) the device of each, with the other conditions that vary on the same device; missing if unknown."""
    text = trials["device"].astype("str")
    for column, plural in CONDITIONS.items():
        if column == "device" or column not in trials:
            continue
        varies = trials.groupby("device", dropna=False)[column].transform("nunique") > 1
        values = pd.Series([f"{v:g}" if isinstance(v, float) else str(v) for v in trials[column]], index=trials.index)
        text = text.where(~varies, text + f", {plural}: " + values)
    return text


def with_cells(rows: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """A table with a `cell` in each row, with `KEYS` of their trials, the shallowest cell first."""
    new = [key for key in KEYS if key == "cell" or key not in rows]
    table = rows.merge(trials.drop_duplicates("cell")[new], on="cell")
    return table.sort_values(["depth", "strategy", "embeddings"], kind="stable", ignore_index=True)


def verdicts(table: pd.DataFrame) -> list[str]:
    """Of each row of a `loss_table`: its `difference` from the baseline in words, or `why_none` can be told."""
    return [why or verdict for why, verdict in zip(table["why_none"], table["difference"], strict=True)]


def hundredths(table: pd.DataFrame, **titles: str) -> dict[str, pd.Series]:
    """The columns named by `titles`, shares and scores of 0 to 1, as percent under the title of each."""
    return {title: (100 * table[column].astype("float64")).round(4) for column, title in titles.items()}


def loss_columns(table: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns by which every table says `loss`, `low` and `high`, in points."""
    titles = {"loss": "loss (points)", "low": "from (points)", "high": "to (points)"}
    return {title: table[column].astype("float64").round(4) for column, title in titles.items()}


def setting_columns(table: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns by which every table names a setting, from its `train_size`, `freeze_spec` and `n_layers`."""
    frozen = freeze_column(table["freeze_spec"], table["n_layers"])
    return {"train size (sentences)": table["train_size"], "frozen": frozen}

"""What was frozen by a rule, or with gradual unfreezing: `froze 0 to 4 of 6 layers, 3.2 on average over steps`.

Every table, card and sentence that says so takes these words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.cells import cell_columns
from trials.freeze.rules import ADAPTIVE
from trials.spec import TrialSpec

if TYPE_CHECKING:  # `status --trials` needs no pandas
    import pandas as pd

_MEASURED = ["frozen_layers", "mean_frozen_layers"]
_COLUMNS = ["strategy", "depth", "n_layers", *_MEASURED]


def froze(spec: TrialSpec, row: dict[str, Any]) -> str:
    """What a trial froze, by its row of the store; empty if that never changed, or was not recorded."""
    return _words([cell_columns(spec) | {name: row[name] for name in _MEASURED}])


def froze_by(frame: pd.DataFrame, key: str) -> dict[str, str]:
    """The same by `trial_id`, or by `cell` over its trials, for those in which what is frozen changed.

    Args:
        frame: As of `trial_frame`.
        key: One of these columns.
    """
    if not set(_COLUMNS) <= set(frame.columns):
        return {}
    ended = frame["frozen_layers"]
    changing = frame[ended.notna() & ((frame["strategy"] == ADAPTIVE) | (ended != frame["depth"]))]
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in changing[[key, *_COLUMNS]].to_dict("records"):
        rows.setdefault(row[key], []).append(row)
    return {name: _words(of) for name, of in rows.items()}


def _words(rows: Sequence[dict[str, Any]]) -> str:
    """Of trials that froze the same at first."""
    (first,), n_layers = {row["depth"] for row in rows}, rows[0]["n_layers"]
    ends, means = (
        [row[name] for row in rows if row[name] is not None and row[name] == row[name]] for name in _MEASURED
    )
    if not ends or (rows[0]["strategy"] != ADAPTIVE and {*ends} == {first}):
        return ""
    if {*ends} == {first}:
        return f"froze {first:g} of {n_layers} layers throughout"
    text = f"froze {first:g} to {max(ends, key=lambda end: abs(end - first)):g} of {n_layers} layers"
    if len({*ends}) > 1:
        text += f" ({min(ends):g} to {max(ends):g} at the end)"
    return text + (f", {sum(means) / len(means):.1f} on average over steps" if means else "")

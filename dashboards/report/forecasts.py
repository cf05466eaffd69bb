"""How accurate a sweep's forecasts were, for its report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from orchestrator.analysis.layer_strip import spelled_out
from orchestrator.config.quantities import counted
from orchestrator.forecast.score import Score, scores
from orchestrator.store import ResultStore

ABOUT = (
    "What each launch was forecast to take when it started, and what it took. Intervals are 80 % intervals. The "
    "error is that of the median, relative to the actual value. Rows of settings are seconds per trial, averaged "
    "over seeds. An interrupted launch is scored by its settings only."
)


@dataclass(frozen=True, eq=False)
class Forecasts:
    """The scored forecasts of one sweep.

    Attributes:
        lines: One sentence per launch.
        table: One row per forecast quantity: `quantity`, `low`, `median`, `high`, `actual`, `error (%)`, `inside`,
            `source`.
    """

    lines: tuple[str, ...]
    table: pd.DataFrame


def forecasts(store: ResultStore, sweep: str) -> Forecasts | None:
    """The scored forecasts of a sweep; None if no launch had one. Raises StoreError."""
    found = scores(store, sweep)
    if not found:
        return None
    rows = [row for one in found for row in _rows(one)]
    return Forecasts(tuple(map(_line, found)), pd.DataFrame(rows))


def _line(score: Score) -> str:
    n = len(score.cells)
    wall = next((f"wall time {100 * one.error:+.0f} %, " for one in score.whole if one.what.startswith("wall")), "")
    return (
        f"Forecast {score.forecast.source}: {wall}median absolute error {100 * score.median_error:.0f} % over "
        f"{counted(n, 'setting')}; {100 * score.coverage:.0f} % of their intervals held the actual time."
    )


def _rows(score: Score) -> Iterator[dict[str, object]]:
    for one in (*score.whole, *score.cells):
        yield {
            "quantity": spelled_out(one.what),
            "low": round(one.figure.low, 4),
            "median": round(one.figure.median, 4),
            "high": round(one.figure.high, 4),
            "actual": round(one.actual, 4),
            "error (%)": round(100 * one.error, 1),
            "inside": "yes" if one.inside else "no",
            "source": one.figure.source,
        }

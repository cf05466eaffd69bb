"""How right a sweep's forecasts were, for its report: each figure beside what happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from orchestrator.forecast.score import Score, scores
from orchestrator.store import ResultStore

ABOUT = (
    "What a launch was forecast to take when it began, and what it took. The interval should hold it four times of "
    "five. The error is of the median, relative to what happened; cells are seconds of a trial, the mean over its "
    "replicates. A launch that was interrupted is scored by its cells only."
)


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Of one sweep.

    Attributes:
        lines: A sentence a launch.
        table: A row a figure: `figure`, `low`, `median`, `high`, `happened`, `error` in percent, `inside`, `told`.
    """

    lines: tuple[str, ...]
    table: pd.DataFrame


def forecasts(store: ResultStore, sweep: str) -> Forecasts | None:
    """The scored forecasts of a sweep; None where no launch had one. Raises what reading the store raises."""
    found = scores(store, sweep)
    if not found:
        return None
    rows = [row for one in found for row in _rows(one)]
    return Forecasts(tuple(map(_line, found)), pd.DataFrame(rows))


def _line(score: Score) -> str:
    n = len(score.cells)
    wall = next((f"wall time {100 * one.error:+.0f} %, " for one in score.whole if one.what.startswith("wall")), "")
    return (
        f"Forecast {score.forecast.source}: {wall}median absolute error over {n} cell{'s' if n > 1 else ''} "
        f"{100 * score.median_error:.0f} %; {100 * score.coverage:.0f} % of their intervals held."
    )


def _rows(score: Score) -> Iterator[dict[str, object]]:
    for one in (*score.whole, *score.cells):
        yield {
            "figure": one.what,
            "low": round(one.figure.low, 4),
            "median": round(one.figure.median, 4),
            "high": round(one.figure.high, 4),
            "happened": round(one.actual, 4),
            "error": round(100 * one.error, 1),
            "inside": "yes" if one.inside else "no",
            "told": one.figure.source,
        }

"""Statistics of plug-ins: a number of a setting, from its completed trials, as a column of the tables of settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trials.errors import ConfigError, reason
from trials.plugins.loading import Registry

if TYPE_CHECKING:  # plans, help texts and the follower load without pandas
    import pandas as pd


@dataclass(frozen=True)
class Statistic:
    """A number of a setting.

    Attributes:
        label: The head of its column, with its unit: `worst seed (%)`.
        function: From the completed trials of a setting, a row each with the columns of `trial_frame`, to the number;
            NaN where there is none.
    """

    label: str
    function: Callable[[pd.DataFrame], float]


STATISTICS: Registry[Statistic] = Registry("statistic")


def statistics_of(completed: pd.DataFrame) -> dict[str, dict[str, float]]:
    """By label, each statistic of every cell of a frame of completed trials.

    Raises:
        ConfigError: A statistic raises.
    """
    if not STATISTICS.values():
        return {}
    groups = [(str(cell), rows) for cell, rows in completed.groupby("cell", sort=False)]
    return {
        statistic.label: {cell: _value(name, statistic, rows) for cell, rows in groups}
        for name, statistic in STATISTICS.items()
    }


def _value(name: str, statistic: Statistic, rows: pd.DataFrame) -> float:
    try:
        return float(statistic.function(rows))
    except Exception as error:  # anything can be wrong with another's code
        told = f"{type(error).__name__}: {reason(error)}"
        raise ConfigError(
            f"statistic {name}: {told}, for the {len(rows)} trials of {rows['freeze'].iloc[0]}."
        ) from error

"""A forecast as text: one line, or a page of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.config.quantities import counted, duration
from orchestrator.forecast.forecast import CellForecast, Figure, Forecast

MOST_CELLS = 14  # so that everything fits one screen


def _unknown(forecast: Forecast) -> str:
    return (
        f"no forecast: the store has no trial on {forecast.device} in this precision. Add --pilot to time a few dozen "
        "steps."
    )


def forecast_line(forecast: Forecast) -> str:
    """The wall time in one line."""
    if forecast.wall_s is None:
        return _unknown(forecast)
    return f"forecast {_span(forecast.wall_s, duration)} on {forecast.device} ({forecast.wall_s.source})"


def forecast_tables(forecast: Forecast) -> Iterator[RenderableType]:
    """The figures of the whole sweep, then the settings that take most of the time."""
    if not forecast.is_known:
        yield Text(_unknown(forecast) if forecast.n_trials else "nothing to run and nothing to forecast")
        return
    yield Stack(
        Text(""), _whole(forecast), Text(f"estimated {forecast.source}; {forecast.device}"), Text(""), _cells(forecast)
    )
    left = len(forecast.cells) - MOST_CELLS
    if left > 0:
        yield Text(f"and {counted(left, 'setting')} that take less time; --json shows all")


def _whole(forecast: Forecast) -> Table:
    table = _table(["forecast", "median", "80 % interval"], left=("forecast",))
    hours = "core-hours" if forecast.device.startswith("cpu") else "GPU-hours"
    rows = [
        (f"wall time, {counted(forecast.slots, 'slot')}", forecast.wall_s, duration, ""),
        (hours, forecast.device_hours, _number, ""),
        ("cost", forecast.cost, _number, "no prices given"),
    ]
    for name, figure, shown, why_not in rows:
        unit = f" {forecast.currency}" if name == "cost" else ""
        values = ("", why_not) if figure is None else (f"{shown(figure.median)}{unit}", _span(figure, shown))
        table.add_row(name, *values)
    return table


def _cells(forecast: Forecast) -> Table:
    table = _table(
        ["setting", "trials", "epochs", "steps", "per trial", "80 % interval", "from"], left=("setting", "from")
    )
    corpora = {cell.corpus for cell in forecast.cells}
    for cell in sorted(forecast.cells, key=lambda cell: -_all_seconds(cell))[:MOST_CELLS]:
        assert cell.seconds is not None
        label = cell.label if len(corpora) > 1 else cell.label.removeprefix(f"{cell.corpus} ")
        counts = (str(len(cell.trials)), str(cell.epochs), f"{cell.steps:,}")
        source = cell.source.removeprefix("from ").removesuffix(" on this device")
        seconds = (duration(cell.seconds.median), _span(cell.seconds, duration))
        table.add_row(Text(label), *counts, *seconds, _SHORT.get(source.split()[0], source))
    return table


_SHORT = {"a": "pilot", "the": "cost model"}


def _table(names: Sequence[str], *, left: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        first = name in ("setting", "forecast")
        table.add_column(
            name,
            justify="left" if name in left else "right",
            overflow="fold",
            no_wrap=not first,
            min_width=22 if name == "forecast" else len(name),
        )
    return table


def _all_seconds(cell: CellForecast) -> float:
    return cell.seconds.median * len(cell.trials) if cell.seconds else 0.0


def _span(figure: Figure, shown: Callable[[float], str]) -> str:
    """Both ends; the unit once if it is the same."""
    low, high = shown(figure.low), shown(figure.high)
    number, _, unit = low.partition(" ")
    if low == high:
        return low
    return f"{number} - {high}" if " " not in unit and unit and high.endswith(f" {unit}") else f"{low} - {high}"


def _number(value: float) -> str:
    return f"{value:.3g}"

"""A forecast as a person reads it: a line, or a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.forecast.figure import Figure
from orchestrator.forecast.values import CellForecast, Forecast

MOST_CELLS = 14  # so that the whole stands on a screen
_UNKNOWN = (
    "forecast not known: the store has no trial of this device and precision. A few dozen steps would tell: add --pilot"
)


def forecast_line(found: Forecast) -> str:
    """The wall time in a line."""
    if found.wall_s is None:
        return _UNKNOWN
    return f"forecast {_span(found.wall_s, duration)} on {found.device} ({found.wall_s.source})"


def forecast_shown(found: Forecast) -> Iterator[RenderableType]:
    """All figures, then the cells that take most of the time."""
    if not found.is_known:
        yield Text(_UNKNOWN if found.n_trials else "nothing to run, so nothing to forecast")
        return
    yield Stack(Text(""), _whole(found), Text(f"told {found.source}; {found.device}"), Text(""), _cells(found))
    left = len(found.cells) - MOST_CELLS
    if left > 0:
        yield Text(f"and {left} cells that take less; --json has all")


def _whole(found: Forecast) -> Table:
    table = _table(["forecast", "median", "4 times of 5 within"], left=("forecast",))
    hours = "core-hours" if found.device.startswith("cpu") else "GPU-hours"
    rows = [
        (f"wall time, {found.slots} at once", found.wall_s, duration, ""),
        (hours, found.device_hours, _number, ""),
        ("energy", found.energy_j, energy, "no counter read"),
        ("peak memory a trial", found.memory_bytes, size, ""),
        ("store grows by", found.disk_bytes, size, "empty store"),
        ("cost", found.cost, _number, "no prices given"),
    ]
    for name, figure, shown, why_not in rows:
        unit = f" {found.currency}" if name == "cost" else ""
        values = ("", why_not) if figure is None else (f"{shown(figure.median)}{unit}", _span(figure, shown))
        table.add_row(name, *values)
    return table


def _cells(found: Forecast) -> Table:
    table = _table(["cell", "trials", "epochs", "steps", "a trial", "within", "told from"], left=("cell", "told from"))
    corpora = {cell.label.partition(" ")[0] for cell in found.cells}
    for cell in sorted(found.cells, key=lambda cell: -_all_seconds(cell))[:MOST_CELLS]:
        assert cell.seconds is not None
        label = cell.label if len(corpora) > 1 else cell.label.partition(" ")[2]
        counts = (str(len(cell.trials)), str(cell.epochs), f"{cell.steps:,}")
        told = cell.source.removeprefix("from ").removesuffix(" on this device")
        seconds = (duration(cell.seconds.median), _span(cell.seconds, duration))
        table.add_row(Text(label), *counts, *seconds, _SHORT.get(told.split()[0], told))
    return table


_SHORT = {"a": "pilot", "the": "cost model"}


def _table(names: Sequence[str], *, left: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        first = name in ("cell", "forecast")
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
    """Both ends, the unit once where it is the same."""
    low, high = shown(figure.low), shown(figure.high)
    number, _, unit = low.partition(" ")
    if low == high:
        return low
    return f"{number} - {high}" if " " not in unit and unit and high.endswith(f" {unit}") else f"{low} - {high}"


def _number(value: float) -> str:
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """`4.2 s`, `3 min 10 s`, `5 h 20 min`, `3 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    for size_s, unit, part_s, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        whole, rest = divmod(round(seconds / part_s) * part_s, size_s)
        if whole:
            return f"{whole:.0f} {unit} {rest / part_s:.0f} {part}"
    return "60 s"


def size(n_bytes: float) -> str:
    """`820 MB`, `1.3 GB`."""
    for unit_bytes, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= unit_bytes:
            return f"{n_bytes / unit_bytes:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def energy(joules: float) -> str:
    """`430 J`, `1.2 kWh`; a kilowatt-hour is 3.6 MJ."""
    return f"{joules / 3.6e6:.3g} kWh" if joules >= 36_000 else f"{joules:.3g} J"

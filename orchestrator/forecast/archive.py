"""Forecasts kept in the store beside the plans, so that a report can say how right they were.

    <store>/sweeps/<name>/forecast-<when>-<digest>.json

Readers of plans look at `plan-*` only, so stores with forecasts stay readable by versions that know none.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from orchestrator.forecast.figure import Figure, figure_of
from orchestrator.forecast.values import CellForecast, Forecast
from orchestrator.storage.errors import BrokenError
from orchestrator.storage.storage import Storage
from orchestrator.store.names import is_intact, stamped
from orchestrator.store.plans import SWEEPS, is_forecast
from trials.errors import StoreError
from trials.sources.cache import is_plain

FORMAT = 1
_FIGURES = ("wall_s", "device_hours", "energy_j", "memory_bytes", "disk_bytes", "cost")


def keep_forecast(store: Storage, found: Forecast) -> None:
    """Write a forecast beside its sweep's plans.

    Raises:
        StoreError: a name that leads to another folder, or the place cannot be written.
    """
    if not is_plain(found.sweep):
        raise StoreError(f"{found.sweep!r} is no name of a sweep, as its forecasts lie in a folder of that name.")
    content = json.dumps(as_json(found)).encode()
    name = stamped("forecast", int(found.time * 1e9), content, "json")
    store.at(SWEEPS).at(found.sweep).write(name, content)


def kept_forecasts(store: Storage, sweep: str) -> list[Forecast]:
    """The forecasts of a sweep, oldest first; those of a newer format are left out.

    Raises:
        BrokenError: one is not what was written.
    """
    folder = store.at(SWEEPS).at(sweep)
    found = (decoded_forecast(f"{folder}/{name}", folder.read(name)) for name in filter(is_forecast, folder.files()))
    return [one for one in found if one is not None]


def as_json(found: Forecast) -> dict[str, Any]:
    """A forecast as JSON values: each figure an object of `low`, `median`, `high` and `source`, or null."""
    return {"format": FORMAT, **asdict(found)}


def decoded_forecast(path: str, content: bytes) -> Forecast | None:
    """A forecast from the bytes of its file; None where it is of a newer format.

    Raises:
        BrokenError: they are not what was written.
    """
    try:
        if not is_intact(path, content):
            raise ValueError("its bytes are not those that were written, by the digest in its name")
        values = json.loads(content)
        if int(values["format"]) > FORMAT:
            return None
        return Forecast(
            sweep=str(values["sweep"]),
            time=float(values["time"]),
            device=str(values["device"]),
            slots=int(values["slots"]),
            source=str(values["source"]),
            cells=tuple(_cell(cell) for cell in values["cells"]),
            currency=str(values["currency"]),
            **{name: _figure(values[name]) for name in _FIGURES},
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BrokenError(path, f"not a readable forecast ({error})", "Take it out; nothing else needs it") from error


def _cell(values: dict[str, Any]) -> CellForecast:
    return CellForecast(
        cell_id=str(values["cell_id"]),
        label=str(values["label"]),
        trials=tuple(map(str, values["trials"])),
        epochs=int(values["epochs"]),
        steps=int(values["steps"]),
        seconds=_figure(values["seconds"]),
        memory_bytes=_figure(values["memory_bytes"]),
        source=str(values["source"]),
    )


def _figure(values: dict[str, Any] | None) -> Figure | None:
    return None if values is None else figure_of(values)

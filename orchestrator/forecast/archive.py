"""Forecasts stored beside the plans of a sweep, so that a report can compare them with what happened.

    <store>/sweeps/<name>/forecast-<when>-<digest>.json

Readers of plans only read `plan-*`, so that versions without forecasts can still read the store.
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
from trials.record import ACCRUED
from trials.sources.cache import is_plain

FORMAT = 1
_FIGURES = ("wall_s", "device_hours", "memory_bytes", "disk_bytes", "cost")


def save_forecast(store: Storage, forecast: Forecast) -> None:
    """Write a forecast beside its sweep's plans.

    Raises:
        StoreError: The name of the sweep is not a plain file name, or the store cannot be written.
    """
    if not is_plain(forecast.sweep):
        raise StoreError(
            f"sweep name {forecast.sweep!r}: cannot be used as a folder name, where its forecasts are stored."
        )
    content = json.dumps(as_json(forecast)).encode()
    name = stamped("forecast", int(forecast.time * 1e9), content, "json")
    store.at(SWEEPS).at(forecast.sweep).write(name, content)


def stored_forecasts(store: Storage, sweep: str) -> list[Forecast]:
    """The forecasts of a sweep, oldest first, without those of a newer format. Raises BrokenError."""
    folder = store.at(SWEEPS).at(sweep)
    decoded = (decoded_forecast(f"{folder}/{name}", folder.read(name)) for name in filter(is_forecast, folder.files()))
    return [forecast for forecast in decoded if forecast is not None]


def as_json(forecast: Forecast) -> dict[str, Any]:
    """A forecast as JSON values: each figure an object of `low`, `median`, `high` and `source`, or null."""
    values = asdict(forecast)
    return {"format": FORMAT, **values.pop("accrued"), **values}


def decoded_forecast(path: str, content: bytes) -> Forecast | None:
    """A forecast from the bytes of its file; None if the format is newer. Raises BrokenError."""
    try:
        if not is_intact(path, content):
            raise ValueError("its content does not match the digest in its name")
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
            accrued={name: _figure(values.get(name)) for name in ACCRUED},  # older forecasts lack the newer ones
            **{name: _figure(values[name]) for name in _FIGURES},
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BrokenError(path, f"not a readable forecast ({error})", "Delete it; nothing else needs it") from error


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

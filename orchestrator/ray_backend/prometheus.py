"""Exports `METRICS` through Ray's agent on this node. Create it in the driver while Ray is running."""

from __future__ import annotations

import string
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import quote

from ray.util.metrics import Counter, Gauge, Histogram

from orchestrator.monitoring.metrics import FLUSH_BOUNDS_S, METRICS, PrometheusMetric

REFRESH_S = 1.0
_AS_THEY_ARE = f" {string.punctuation}"


class RayMeters:
    """`Meters` that Ray exports. An unknown name or label raises.

    Ray reports a gauge to its agent only when it is set, and the agent drops it twenty seconds later (Ray 2.60). So a
    thread sets gauges again while the context lasts, also while the driver waits: that is when people look at them.
    """

    def __init__(self) -> None:
        self._counters = {m.name: Counter(m.name, m.help, _keys(m)) for m in METRICS.values() if m.kind == "counter"}
        self._gauges = {m.name: Gauge(m.name, m.help, _keys(m)) for m in METRICS.values() if m.kind == "gauge"}
        self._histograms = {
            m.name: Histogram(m.name, m.help, list(FLUSH_BOUNDS_S), _keys(m))
            for m in METRICS.values()
            if m.kind == "histogram"
        }
        self._last: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._refresher = threading.Thread(target=self._refresh, name="gauges", daemon=True)

    def __enter__(self) -> Self:
        self._refresher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._refresher.join()

    def add(self, name: str, amount: float, **labels: str) -> None:
        """Increase a counter; Ray refuses to add 0."""
        if amount > 0:
            self._counters[name].inc(amount, _in_ascii(labels))

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._last[name, tuple(labels.items())] = value
            self._gauges[name].set(value, _in_ascii(labels))

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add a value to a histogram."""
        self._histograms[name].observe(value, _in_ascii(labels))

    def _refresh(self) -> None:
        while not self._over.wait(REFRESH_S):
            with self._lock:
                for (name, labels), value in self._last.items():
                    self._gauges[name].set(value, _in_ascii(dict(labels)))


def _in_ascii(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels as Ray takes them: other letters percent-encoded, as in a URL (`gr%C3%B6%C3%9Fe`)."""
    return {name: quote(value, safe=_AS_THEY_ARE, errors="replace") for name, value in labels.items()}


def _keys(metric: PrometheusMetric) -> tuple[str, ...]:
    return ("sweep", *metric.labels)

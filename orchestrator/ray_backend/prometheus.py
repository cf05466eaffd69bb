"""`METRICS` in Ray's hands, whose agent on this node exports them. Make it while Ray is up, in the driver."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from ray.util.metrics import Counter, Gauge, Histogram

from orchestrator.monitoring.metrics import FLUSH_BOUNDS_S, METRICS, PrometheusMetric

REFRESH_S = 1.0


class RayMeters:
    """`Meters` that Ray exports. A name or a label that is not in the table is a mistake of ours and raises.

    Ray tells its agent of a gauge only when it is set, and the agent forgets it twenty seconds later (Ray 2.60). So
    gauges are set again while the context lasts, in a thread: also where the driver waits for something, as that is
    when somebody looks at them.
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
        """Let a counter grow; Ray refuses to add 0."""
        if amount > 0:
            self._counters[name].inc(amount, labels)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._last[name, tuple(labels.items())] = value
            self._gauges[name].set(value, labels)

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""
        self._histograms[name].observe(value, labels)

    def _refresh(self) -> None:
        while not self._over.wait(REFRESH_S):
            with self._lock:
                for (name, labels), value in self._last.items():
                    self._gauges[name].set(value, dict(labels))


def _keys(metric: PrometheusMetric) -> tuple[str, ...]:
    return ("sweep", *metric.labels)

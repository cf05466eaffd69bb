"""The distribution's Prometheus, and what an expression of its language asks for."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest

from orchestrator.monitoring.metrics import METRICS

DOCKER = Path(__file__).parents[3] / "docker"
EXPORTED = {name for metric in METRICS.values() for name in metric.exported}

_WORDS = {"and", "or", "unless", "offset", "bool"}


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is; skips the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed (apt install prometheus)"
        assert not os.environ.get("PERMAFROST_REQUIRE_PROMETHEUS"), reason
        pytest.skip(reason)
    return found


def metrics_in(expression: str) -> set[str]:
    """The metrics and recorded rules that an expression names: what stands where neither a label nor a function can."""
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\{[^}]*\}|\[[^]]*\]", " ", text)
    text = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", text)
    names = re.findall(r"(?<![\w:.$])([a-zA-Z_][\w:]*)\b(?!\s*\()", text)
    return {name for name in names if name not in _WORDS}


def named_by_ray() -> set[str]:
    """The gauges of a node in the installed Ray's own table; its module takes seconds to import, so it is read."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    agent = Path(spec.origin).parent / "dashboard" / "modules" / "reporter" / "reporter_agent.py"
    return {f"ray_{name}" for name in re.findall(r'^    "(\w+)": Gauge\(', agent.read_text(encoding="utf-8"), re.M)}

"""The name of this machine's CPU, without torch, so that a plan can use it."""

from __future__ import annotations

from pathlib import Path


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """E.g. `cpu AMD EPYC`: times of the same name can be compared; `cpu` if it cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "cpu"
    return "cpu " + next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")

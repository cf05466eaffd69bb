"""The name of this machine's CPU, without torch: a plan asks for it too."""

from __future__ import annotations

from pathlib import Path


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """`cpu AMD EPYC`, under which times may be compared; `cpu` where it cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "cpu"
    return "cpu " + next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")

"""The console script `permafrost`: the orchestrator's commands, and those that show what a store holds."""

from __future__ import annotations

from orchestrator.commands.app import COMMANDS, READ, SHARE, START
from orchestrator.commands.app import app as app

COMMANDS |= {
    "dashboard": (
        "dashboards.commands.dashboard:dashboard",
        "Browse the results of a store in a browser, live while a sweep runs.",
        READ,
    ),
    "demo": (
        "dashboards.commands.dashboard:demo",
        "Browse FreezeBench, a study of freezing that comes with Permafrost. Nothing runs and nothing is written.",
        START,
    ),
    "report": (
        "dashboards.commands.report:report",
        "Write the report of a sweep: HTML, LaTeX and CSV tables, figures.",
        READ,
    ),
    "export figure": (
        "dashboards.commands.report:export",
        "Write one figure or its table as a page shows it; the format follows the extension.",
        SHARE,
    ),
}

if __name__ == "__main__":
    app(prog_name="permafrost")

"""The console script `permafrost`: the orchestrator's commands, and those that show what a store holds."""

from __future__ import annotations

from dashboards.dashboard_command import dashboard
from dashboards.report_command import export, report
from orchestrator.cli import app as app

app.command()(dashboard)
app.command()(report)
app.command()(export)

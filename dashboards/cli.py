"""The console script `permafrost`: the orchestrator's commands, and those that show what a store holds."""

from __future__ import annotations

from dashboards.commands.dashboard import dashboard
from dashboards.commands.report import export, report
from orchestrator.commands.app import app as app

app.command()(dashboard)
app.command()(report)
app.command()(export)

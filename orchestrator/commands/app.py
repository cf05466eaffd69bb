"""The console script `permafrost`: every command under one name."""

from __future__ import annotations

import typer

from orchestrator.commands.compare import compare
from orchestrator.commands.data import app as data
from orchestrator.commands.doctor import doctor
from orchestrator.commands.export_model import export_model
from orchestrator.commands.launch_command import launch
from orchestrator.commands.manifests import app as manifests
from orchestrator.commands.optuna_study import study
from orchestrator.commands.plan_command import plan
from orchestrator.commands.predict import predict
from orchestrator.commands.reproduce import reproduce
from orchestrator.commands.status_command import status
from orchestrator.commands.stop import stop
from orchestrator.commands.store import app as store

app = typer.Typer(
    name="permafrost",
    help="How much of a pretrained encoder can be frozen before quality suffers, and what does that save?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(launch)
app.command()(plan)
app.command()(doctor)
app.command()(status)
app.command()(stop)
app.command()(compare)
app.command()(study)
app.command()(reproduce)
app.command("export-model")(export_model)
app.command()(predict)
app.add_typer(data, name="data")
app.add_typer(store, name="store")
app.add_typer(manifests, name="manifests")

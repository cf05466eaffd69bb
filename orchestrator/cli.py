"""The console script `permafrost`: every command under one name."""

from __future__ import annotations

import typer

from orchestrator.compare import compare
from orchestrator.data import app as data
from orchestrator.doctor_command import doctor
from orchestrator.export_model import export_model
from orchestrator.launch import launch
from orchestrator.manifests_command import app as manifests
from orchestrator.plan_command import plan
from orchestrator.predict import predict
from orchestrator.reproduce import reproduce
from orchestrator.status import status
from orchestrator.stop_command import stop
from orchestrator.store_command import app as store
from orchestrator.study import study

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

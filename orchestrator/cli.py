"""The console script `permafrost`: every command under one name."""

from __future__ import annotations

import typer

from orchestrator.launch import launch
from orchestrator.status import status

app = typer.Typer(
    name="permafrost",
    help="How much of a pretrained encoder can be frozen before quality suffers, and what does that save?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(launch)
app.command()(status)

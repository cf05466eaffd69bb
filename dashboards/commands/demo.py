"""The study that comes with Permafrost, in a browser: an answer to look at before anything has run.

permafrost demo
"""

from __future__ import annotations

from typing import Annotated

import typer

from dashboards.commands.dashboard import dashboard
from orchestrator.config import options
from orchestrator.config.command_line import configs_folder
from orchestrator.config.console import reported, say
from trials.errors import StoreError

DEMO_STORE = configs_folder("freezebench") / "store"


def demo(
    port: Annotated[int, typer.Option(help="Port, or the next free one; 0 takes any.")] = 8050,
    debug: options.Debug = False,
) -> None:
    """Browse FreezeBench, a study of freezing that comes with Permafrost. Nothing runs and nothing is written.

    Examples:
        permafrost demo

        permafrost demo --port 0

    Exit codes: as of `dashboard`.
    """
    with reported(debug=debug):
        if not DEMO_STORE.is_dir():
            raise StoreError(f"{DEMO_STORE}: the study is not there. Install Permafrost anew, or use its repository.")
        say(f"store   {DEMO_STORE}\nhow     {DEMO_STORE.parent / 'README.md'}")
    dashboard(
        store=str(DEMO_STORE), sweep=None, host="127.0.0.1", port=port, token_file=None, trusted_host=None,
        url_prefix="", debug=debug,
    )  # fmt: skip

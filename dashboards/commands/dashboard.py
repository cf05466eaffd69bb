"""The results dashboard over a store, live while sweeps run; it needs no Ray.

permafrost dashboard results
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.config.console import DEFAULT_STORE, DebugOption, reported


def dashboard(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="A folder, s3://bucket/prefix, gs:// or hdfs://.")
    ] = DEFAULT_STORE,
    host: Annotated[str, typer.Option(help="Where to listen. Beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free one.")] = 8050,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the token; else PERMAFROST_DASHBOARD_TOKEN does.")
    ] = None,
    trusted_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name by which visitors reach it; repeatable.")
    ] = None,
    debug: DebugOption = False,
) -> None:
    """Browse the results of a store: what freezing costs and saves, live while a sweep runs.

    Examples:
        permafrost dashboard

        permafrost dashboard s3://bucket/results --port 0

    Exit codes: 2 a wrong option, 3 no store, 4 refused for safety, 130 and 143 ended.
    """
    with reported(debug=debug):
        from dashboards.app.app import make_app  # Dash and pandas take a second, which --help need not wait for
        from dashboards.data.frames import Frames
        from dashboards.serving.access import read_access
        from dashboards.serving.server import serve
        from orchestrator.store import open_store

        access = read_access(host=host, port=port, token_file=token_file, trusted_hosts=tuple(trusted_host or ()))
        frames = Frames(open_store(store))
        frames.refresh()
        code = serve(make_app(frames), access, debug=debug)
    raise typer.Exit(code)

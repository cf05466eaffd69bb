"""The results dashboard over a store, live while sweeps run; it needs no Ray. Also over the study that comes along.

permafrost dashboard results
permafrost demo
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from orchestrator.config import options
from orchestrator.config.command_line import configs_folder
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, say
from orchestrator.store import open_store
from trials.errors import PermafrostError, StoreError, require

if TYPE_CHECKING:
    from dashboards.data.frames import Frames
    from dashboards.data.selection import PageQuery
    from dashboards.serving.access import Access

DEMO_STORE = configs_folder("freezebench") / "store"
# Of its sweeps the one with most corpora and seeds, at a tolerance that these seeds decide on two of the corpora.
DEMO_PAGE = {"sweep": "freezebench-core", "tolerance": "4"}

NO_TOKEN = typer.Option("--no-token", help="Ask for none: any user of this machine can look.")


def dashboard(
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port, or the next free one; 0 takes any.")] = 8050,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the token.", show_default="PERMAFROST_DASHBOARD_TOKEN, else a new token"
        ),
    ] = None,
    no_token: Annotated[bool, NO_TOKEN] = False,
    trusted_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Host name that visitors use; repeatable.")
    ] = None,
    url_prefix: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Path below which a proxy shows it, e.g. /permafrost.",
            show_default="X-Forwarded-Prefix of a proxy on this machine",
        ),
    ] = "",
) -> None:
    """Browse the results of a store in a browser, live while a sweep runs.

    Examples:
        permafrost dashboard

        permafrost dashboard s3://bucket/results --port 0

    Exit codes: 2 invalid option, 3 no store, 4 refused for safety, 5 no such sweep, 130 Ctrl-C, 143 SIGTERM.
    """
    with errors_as_exit_codes():
        require("dash", "dashboard", "the dashboard")
        from dashboards.serving.access import read_access

        access = read_access(
            host=host,
            port=port,
            token_file=token_file,
            no_token=no_token,
            trusted_hosts=tuple(trusted_host or ()),
            url_prefix=url_prefix,
        )
        code = _serve(store, {} if sweep is None else {"sweep": sweep}, access)
    raise typer.Exit(code)


def _serve(store: str, page: Mapping[str, str], access: Access) -> int:
    """Serve the pages of a store, of which one with these settings is announced, until a signal; the exit code."""
    from dashboards.app.app import make_app  # Dash and pandas take a second, which --help need not wait for
    from dashboards.data.frames import Frames
    from dashboards.data.selection import parse_query
    from dashboards.serving.server import serve

    frames = Frames(results := open_store(store))
    if "sweep" in page:
        page = {**page, "sweep": results.sweep(page["sweep"]).name}
    frames.refresh()
    gc.collect()
    gc.freeze()  # what is known of the store stays: looking through it for garbage would stop a page for 0.3 s
    search = f"?{urlencode(page)}" if page else ""
    front = parse_query(search)[0] if page else None
    ahead = threading.Thread(target=_answer_ahead, args=(frames, front), daemon=True)
    ahead.start()
    try:
        return serve(make_app(frames, front), access, say, page=search)
    finally:
        ahead.join()


def _answer_ahead(frames: Frames, front: PageQuery | None) -> None:
    """Have the answer of the first page before a browser asks for it; a page says what keeps it from being had."""
    from dashboards.app.app import answer_ahead

    with suppress(PermafrostError):
        answer_ahead(frames, front)


def demo(
    port: Annotated[int, typer.Option(help="Port, or the next free one; 0 takes any.")] = 8050,
    no_token: Annotated[bool, NO_TOKEN] = False,
) -> None:
    """Browse FreezeBench, a study of freezing that comes with Permafrost. Nothing runs and nothing is written.

    Examples:
        permafrost demo

        permafrost demo --port 0

    Exit codes: as of `dashboard`.
    """
    with errors_as_exit_codes():
        require("dash", "dashboard", "the dashboard")
        if not DEMO_STORE.is_dir():
            raise StoreError(f"{DEMO_STORE}: the study is not there. Install Permafrost anew, or use its repository.")
        from dashboards.serving.access import read_access

        say(f"store   {DEMO_STORE}\nhow     {DEMO_STORE.parent / 'README.md'}")
        access = read_access(port=port, no_token=no_token)
        code = _serve(str(DEMO_STORE), DEMO_PAGE, access)
    raise typer.Exit(code)

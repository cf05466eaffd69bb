"""The report of a sweep as files for a paper, and single figures as a page shows them.

permafrost report starter -o report
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboards.data.page_query import COSTS
from orchestrator.config.console import DEFAULT_STORE, DebugOption, StoreOption, reported, say
from trials.errors import ConfigError

_NO_PICTURES = "--no-pictures"


def report(
    sweep: Annotated[
        str | None, typer.Argument(metavar="[SWEEP]", help="A sweep of the store.", show_default="the newest")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", show_default="report/SWEEP")] = None,
    tolerance: Annotated[float, typer.Option(min=0, max=100, help="Acceptable loss of quality in points.")] = 1.0,
    cost: Annotated[str, typer.Option(help=f"The cost to save: {', '.join(COSTS)}.")] = "training_cost_s",
    pictures: Annotated[
        bool, typer.Option(f"--pictures/{_NO_PICTURES}", help="Also write each figure as SVG, PDF and PNG.")
    ] = True,
    debug: DebugOption = False,
) -> None:
    """Write the report of a sweep: HTML, Markdown, LaTeX and CSV tables, figures.

    Examples:
        permafrost report

        permafrost report starter --store results -o report --tolerance 0.5

    Exit codes: 0 success, 2 invalid option, 3 no store, 5 no such sweep.
    """
    with reported(debug=debug):
        from dashboards.data.frames import Frames
        from dashboards.data.page_query import PageQuery
        from dashboards.report.write import write_report
        from orchestrator.store import open_store

        if cost not in COSTS:
            raise ConfigError(f"--cost: {cost!r} is not one of {', '.join(COSTS)}.")
        frames = Frames(open_store(store))
        name = sweep or next(iter(frames.refresh().sweeps), "")
        folder = out or Path("report") / (name or "empty")
        written = write_report(frames, PageQuery(sweep=name, tolerance=tolerance, cost=cost), folder, pictures=pictures)
        if written.no_pictures:
            say(f"No SVG, PDF and PNG: {written.no_pictures}")
        say(f"{len(written.files)} files in {folder}; open:")
        print(written.html.resolve())


def export(
    figure: Annotated[str, typer.Argument(metavar="FIGURE", help="Name of a figure or table, e.g. depth-strip.")],
    url: Annotated[str, typer.Option(metavar="QUERY", help="The page's address from ? on.")] = "",
    store: StoreOption = DEFAULT_STORE,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", show_default="FIGURE.csv")] = None,
    debug: DebugOption = False,
) -> None:
    """Write one figure or its table as a page shows it; the format follows the extension.

    Examples:
        permafrost export depth-strip -o depth.svg

        permafrost export depth-table --url '?sweep=starter&size=800' -o table.tex

    Extensions: csv, md, tex for the table; svg, pdf, png for the figure; json for Plotly. Exit codes: 2 invalid option,
    3 no store or no browser, 5 nothing to show.
    """
    with reported(debug=debug):
        from dashboards.data.frames import Frames
        from dashboards.report.figure_export import export_figure
        from orchestrator.store import open_store

        path = out or Path(f"{figure}.csv")
        for notice in export_figure(Frames(open_store(store)), figure, url, path):
            say(notice)
        print(path.resolve())

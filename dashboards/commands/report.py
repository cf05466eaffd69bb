"""The report of a sweep as files for a paper, and single figures as a page shows them.

permafrost report results starter -o report
permafrost export figure depth-strip --store results -o depth.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboards.data.selection import COSTS
from orchestrator.api.answering import answers_of, overrides, plan_with
from orchestrator.commands.answer_command import ToleranceOption
from orchestrator.commands.shown_answers import show_answers
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, say, stderr, step_progress
from orchestrator.store import ResultStore, open_store
from trials.errors import ConfigError, RefusedError, require
from trials.outside.plain_files import path_inside

_NO_PICTURES = "--no-pictures"


def report(
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="The folder to write.", show_default="report/SWEEP"),
    ] = None,
    tolerance: ToleranceOption = None,
    cost: Annotated[
        str | None,
        typer.Option(
            help=f"The cost to save: {', '.join(COSTS)}.",
            show_default="training_flops where recorded, else trainable_params",
        ),
    ] = None,
    pictures: Annotated[
        bool, typer.Option(f"--pictures/{_NO_PICTURES}", help="Also write each figure as SVG, PDF and PNG.")
    ] = True,
    answers: Annotated[bool, typer.Option("--answers/--no-answers", help="End with what to freeze.")] = True,
) -> None:
    """Write the report of a sweep: HTML, LaTeX and CSV tables, figures.

    Examples:
        permafrost report

        permafrost report results starter -o report --tolerance 0.5

    Exit codes: 0 success, 2 invalid option, 3 no store, 4 the folder holds something else, 5 no such sweep.
    """
    with errors_as_exit_codes():
        require("dash", "dashboard", "`report`")
        from dashboards.data.frames import Frames
        from dashboards.data.selection import PageQuery
        from dashboards.report.files import write_report
        from dashboards.report.sections import require_sweep

        if cost is not None and cost not in COSTS:
            raise ConfigError(f"--cost: {cost!r} is not one of {', '.join(COSTS)}.")
        frames = Frames(open_store(store))
        snapshot = frames.refresh()
        name = sweep or (frames.store.sweep(compares=True).name if snapshot.sweeps else "")
        require_sweep(snapshot, name)
        folder = out or path_inside(Path("report"), name)
        is_report = (folder / "report.html").exists()
        if folder.exists() and not is_report and (not folder.is_dir() or any(folder.iterdir())):
            raise RefusedError(f"{folder} already exists and holds no report. Choose another folder with -o.")
        query = PageQuery(sweep=name, tolerance=tolerance)
        query = query if cost is None else query.but(cost=cost)
        replaced = ", which replace an older report" if is_report else ""
        with step_progress(stderr) as progress:
            written = write_report(frames, query, folder, pictures=pictures, progress=progress)
        if written.no_pictures:
            say(f"No SVG, PDF and PNG: {written.no_pictures}")
        if answers:
            _say_answers(frames.store, name, tolerance, cost)
        say(f"{len(written.files)} files in {folder}{replaced}; open:")
        print(written.html.resolve())


def _say_answers(store: ResultStore, sweep: str, tolerance: float | None, cost: str | None) -> None:
    """Print the answers on stderr: stdout is for the path of the report."""
    plan = next((plan for plan in store.sweeps() if plan.name == sweep), None)
    if plan is not None:
        specs = plan.specs
        used = plan_with(plan.decision_plan, tolerance=tolerance, cost=cost)
        if sentence := overrides(plan.decision_plan, used):
            say(sentence)
        show_answers(answers_of(store, specs, used), stderr)


def export(
    figure: Annotated[str, typer.Argument(metavar="FIGURE", help="Name of a figure or table, e.g. depth-strip.")],
    url: Annotated[str, typer.Option(metavar="QUERY", help="The page's address from ? on.")] = "",
    store: options.Store = DEFAULT_STORE,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file to write.", show_default="FIGURE.csv")
    ] = None,
) -> None:
    """Write one figure or its table as a page shows it; the format follows the extension.

    Examples:
        permafrost export figure depth-strip -o depth.svg

        permafrost export figure depth-table --url '?sweep=starter' -o table.tex

    Extensions: csv, md, tex for the table; svg, pdf, png for the figure; json for Plotly.

    Exit codes: 2 invalid option, 3 no store or no browser, 5 nothing to show.
    """
    with errors_as_exit_codes():
        require("dash", "dashboard", "`export figure`")
        from dashboards.data.frames import Frames
        from dashboards.report.files import export_figure

        path = out or Path(f"{figure}.csv")
        for notice in export_figure(Frames(open_store(store)), figure, url, path):
            say(notice)
        print(path.resolve())

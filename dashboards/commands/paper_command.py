"""A published study's own tables and figures, drawn again with the trials of a store beside.

permafrost paper emekaeze_pos --store results -o paper
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, say
from orchestrator.extras.published.study import STUDIES


def paper(
    study: Annotated[str, typer.Argument(metavar="STUDY", help=f"One of {', '.join(STUDIES)}.")],
    store: options.Store = DEFAULT_STORE,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="The folder to write.", show_default="paper/STUDY")
    ] = None,
    margin: Annotated[
        float, typer.Option(min=0.01, max=100, help="Largest difference of scores that counts as the same, in points.")
    ] = 1.0,
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Also write each figure as SVG, PDF and PNG.")
    ] = True,
    debug: options.Debug = False,
) -> None:
    """Draw the tables and figures of a published study as it has them, with ours beside and a verdict per number.

    Examples:
        permafrost paper emekaeze_pos --store results

        permafrost paper freezing_bert_glue --store results -o paper --margin 0.5

    Exit codes: 0 success, 2 invalid option or unknown study, 3 no store.
    """
    with reported(debug=debug):
        from dashboards.report.paper import write_paper
        from orchestrator.extras.published.study import load_study
        from orchestrator.store import open_store

        found, folder = load_study(study), out or Path("paper") / study
        written = write_paper(found, open_store(store), folder, margin=margin / 100, pictures=pictures)
        if written.no_pictures:
            say(f"No SVG, PDF and PNG: {written.no_pictures}")
        say(f"{len(written.files)} files in {folder}; open:")
        print(written.html.resolve())

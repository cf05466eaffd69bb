"""Fetch corpora before a sweep, and check one.

permafrost data fetch UD_English-EWT nyu-mll/glue/sst2
permafrost data fetch --sweep my.yaml
permafrost data check my-treebank
permafrost data check --sweep my.yaml
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.commands.data_check import check
from orchestrator.config.console import command_group, download_progress, errors_as_exit_codes, say, stderr, stdout
from orchestrator.sweeps.expansion import expand
from orchestrator.sweeps.load_sweep import load_sweep
from trials.draft import Lookup
from trials.errors import ConfigError
from trials.sources.cache import FetchedCorpus, fetched_corpora
from trials.sources.places.corpus_draft import named_corpus

app = command_group("Fetch and check corpora.")

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="UD_English-EWT, nyu-mll/glue/sst2, ...; with @RELEASE or @REVISION."),
]
SweepOption = Annotated[
    Path | None, typer.Option("--sweep", metavar="FILE", help="Also fetch all data and models of this sweep.")
]


@app.command()
def fetch(names: Names = None, sweep: SweepOption = None) -> None:
    """Download treebanks and datasets, and with --sweep the models of a sweep. Cached files are not fetched again.

    Examples:
        permafrost data fetch UD_English-EWT nyu-mll/glue/sst2

        permafrost data fetch --sweep configs/sweeps/emekaeze_pos.yaml
    """
    with errors_as_exit_codes(), download_progress(stderr):
        if not names and sweep is None:
            raise ConfigError("nothing to fetch. Give a NAME like UD_English-EWT, or --sweep FILE.")
        before = {corpus.source for corpus in fetched_corpora()}
        for name in names or ():
            named_corpus(name).resolve()
        if sweep is not None:
            expand(*load_sweep(sweep, []), Lookup())
        corpora = fetched_corpora()
    stdout.print(_list_table(corpora, new={corpus.source for corpus in corpora} - before))
    say("all requested files are on this machine.")


def _list_table(corpora: list[FetchedCorpus], new: set[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("corpus", "MB", "licence", "folder"):
        table.add_column(name, overflow="fold", justify="right" if name == "MB" else "left")
    for corpus in corpora:
        mark = " (new)" if corpus.source in new else ""
        row = (corpus.source + mark, f"{corpus.n_bytes / 1e6:.1f}", corpus.licence or "not stated", str(corpus.folder))
        table.add_row(*map(Text, row))
    return table


app.command()(check)

"""Compare the trials of a store with a published study. The store is only read.

permafrost compare --study emekaeze_pos
permafrost compare --store results --study freezing_bert_glue -o comparison
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_jsonable_python

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, stdout
from orchestrator.config.quantities import counted
from orchestrator.extras.published.comparison import compare_study
from orchestrator.extras.published.comparison_tables import comparison_tables
from orchestrator.extras.published.files import write_comparison
from orchestrator.extras.published.study import STUDIES, load_study
from orchestrator.extras.published.verdicts import MARGIN
from orchestrator.store import open_store

StudyOption = Annotated[str, typer.Option("--study", metavar="NAME", help=f"One of {', '.join(STUDIES)}.")]
MarginOption = Annotated[
    float, typer.Option(min=0.01, max=100, help="Largest difference of scores that counts as the same, in points.")
]
_NEEDED = ["trial_id", "step", "epoch"]  # columns of an evaluation other than its metrics


def compare(
    study: StudyOption,
    store: options.Store = DEFAULT_STORE,
    margin: MarginOption = 100 * MARGIN,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Also write every number as CSV and one figure as HTML."),
    ] = None,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Judge whether the trials of a store reproduce a published study, or say why they cannot be compared.

    Examples:
        permafrost compare --study emekaeze_pos

        permafrost compare --store results --study freezing_bert_glue --margin 0.5 --out comparison
    """
    with reported(debug=debug):
        published, results = load_study(study), open_store(store)
        epochs = results.epochs()
        columns = {column for metric in published.metrics.values() for column in metric.columns}
        wanted = [name for name in epochs.column_names if name in columns.union(_NEEDED)]
        rows, evaluations = results.trials().to_pylist(), epochs.select(wanted).to_pylist()
        if any(metric.to_baseline for metric in published.metrics.values()):
            sentences = results.sentences()
            rows = [row | {"sentences": sentences.get(row["trial_id"], {})} for row in rows]
        comparison = compare_study(published, rows, evaluations, margin=margin / 100)
        files = write_comparison(comparison, published, out) if out else []
        if as_json:
            content = {
                "store": str(results.address),
                **to_jsonable_python(comparison),
                "published": published.model_dump(),
            }
            typer.echo(json.dumps(content))
            return
        for part in comparison_tables(comparison, published):
            stdout.print(part)
        trials = counted(comparison.trials, "trial")
        stdout.print_line(f"{trials} compared, from {results.address}")
        for path in files:
            stdout.print_line(str(path.resolve()))

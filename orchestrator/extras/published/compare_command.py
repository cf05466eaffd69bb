"""Compare the trials of a store with a published study. The store is only read.

permafrost compare --study emekaeze_pos
permafrost compare --store results --study freezing_bert_glue --json
"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from pydantic_core import to_jsonable_python

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, stdout
from orchestrator.config.quantities import counted
from orchestrator.extras.published.comparison import MARGIN, compare_study
from orchestrator.extras.published.comparison_tables import comparison_tables
from orchestrator.extras.published.study import STUDIES, load_study
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
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Judge whether the trials of a store reproduce a published study, or say why they cannot be compared.

    Examples:
        permafrost compare --study emekaeze_pos

        permafrost compare --store results --study freezing_bert_glue --margin 0.5 --json
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

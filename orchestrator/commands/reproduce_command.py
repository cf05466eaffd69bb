"""Run one trial of a store again and compare the numbers.

permafrost reproduce 9f2c51d0a1b2c3d4 --store results
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, say, stdout
from orchestrator.config.quantities import counted, points
from orchestrator.execution.provenance import versions
from orchestrator.execution.rerun import Difference, differences, find_trial, rerun
from orchestrator.store import open_store


def reproduce(
    trial: Annotated[
        str,
        typer.Argument(
            metavar="TRIAL", help="The name of a trial as every line prints it, its id, or its first characters."
        ),
    ],
    store: options.Store = DEFAULT_STORE,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Run one trial again, without writing to the store, and compare every number that it computes.

    On a CPU with the same packages and threads the numbers are bit-identical; on a GPU the last digits may differ.

    Examples:
        permafrost reproduce 9f2c51d0

    Exit codes: 0 bit-identical, 1 some number differs, 3 a file is missing or broken, 5 no such completed trial.
    """
    with reported(debug=debug):
        results = open_store(store)
        spec, row = find_trial(results, trial)
        say(f"rerun   {spec.label}, {counted(row['threads'] or 1, 'thread')}; recorded on {row['device']}")
        for line in _other_versions(dict(row["versions"] or ())):
            say(line)
        stored = [r for r in results.epochs().to_pylist() if r["trial_id"] == row["trial_id"]]
        line = "epoch   {:g}  score {}  dev loss {:.6f}"
        rows, _ = rerun(spec, row, lambda r: say(line.format(r.epoch, points(r.score, 4), r.dev_loss)))
        differing = differences(stored, rows)
        if as_json:
            comparison = {"same": not differing, "differences": [asdict(difference) for difference in differing]}
            print(json.dumps({"trial_id": row["trial_id"], **comparison}))
        else:
            for line in _verdict(len(stored), differing):
                stdout.print_line(line)
    raise typer.Exit(int(bool(differing)))


def _other_versions(recorded: dict[str, str]) -> list[str]:
    here = versions()
    return [
        f"note    {name} was {version} when recorded and is {here[name]} here"
        for name, version in recorded.items()
        if name in here and here[name] != version
    ]


def _verdict(n: int, differing: list[Difference]) -> list[str]:
    if not differing:
        return [f"bit-identical: every number of {counted(n, 'evaluation')}."]
    worst = max((d for d in differing if d.column == "score"), key=_size, default=None)
    score = f"; the score differs by at most {100 * _size(worst):.2e} points" if worst else "; no score differs"
    first = differing[0]
    count = "1 number differs" if len(differing) == 1 else f"{len(differing):,} numbers differ"
    return [
        f"{count} in {counted(n, 'evaluation')}{score}.",
        f"first: {first.column} at step {first.step}, stored {_short(first.stored)}, now {_short(first.found)}.",
    ]


def _size(difference: Difference | None) -> float:
    if difference is None or difference.stored is None or difference.found is None:
        return float("inf")
    return abs(float(difference.stored) - float(difference.found))


def _short(value: Any) -> str:
    return f"a list of {counted(len(value), 'value')}" if isinstance(value, list) else str(value)

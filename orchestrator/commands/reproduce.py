"""Run one row of a store again and say whether the numbers match.

permafrost reproduce 9f2c51d0a1b2c3d4 --store results
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from orchestrator.config.console import DEFAULT_STORE, DebugOption, JsonOption, StoreOption, reported, say, stdout
from orchestrator.execution.recorder import versions
from orchestrator.execution.rerun import Difference, differences, find_trial, rerun
from orchestrator.store import open_store
from trials.record import EpochRecord


def reproduce(
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="A trial's id, or its beginning.")],
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run one trial again, beside the store, and compare every number it computes.

    On a CPU with the same packages and threads they are the same to the bit; on a GPU the last digits may differ.

    Examples:
        permafrost reproduce 9f2c51d0

    Exit codes: 0 the same to the bit, 1 some number differs.
    """
    with reported(debug=debug):
        results = open_store(store)
        spec, row = find_trial(results, trial)
        say(f"again   {spec.label}, with {row['threads'] or 1} threads; recorded on {row['device']}")
        for line in _other_versions(dict(row["versions"] or ())):
            say(line)
        stored = [r for r in results.epochs().to_pylist() if r["trial_id"] == row["trial_id"]]
        found, _ = rerun(spec, row, lambda record: say(_line(record)))
        differing = differences(stored, found)
        if as_json:
            print(json.dumps({"trial_id": row["trial_id"], "same": not differing, "differences": _plain(differing)}))
        else:
            for line in _verdict(len(stored), differing):
                stdout.print(line, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(int(bool(differing)))


def _line(record: EpochRecord) -> str:
    return f"epoch   {record.epoch:g}  score {record.score:.6f}  dev loss {record.dev_loss:.6f}"


def _other_versions(recorded: dict[str, str]) -> list[str]:
    here = versions()
    return [
        f"note    {name} was {version}, here it is {here[name]}"
        for name, version in recorded.items()
        if name in here and here[name] != version
    ]


def _verdict(n: int, differing: list[Difference]) -> list[str]:
    if not differing:
        return [f"the same to the bit: every number of {n} evaluations."]
    worst = max((d for d in differing if d.column == "score"), key=_size, default=None)
    told = f"; the score by at most {_size(worst):.2e}" if worst else "; no score among them"
    first = differing[0]
    count = "1 number differs" if len(differing) == 1 else f"{len(differing)} numbers differ"
    return [
        f"{count}, of those of {n} evaluations{told}.",
        f"the first: {first.column} at step {first.step}, stored {_short(first.stored)}, now {_short(first.found)}.",
    ]


def _size(difference: Difference | None) -> float:
    if difference is None or difference.stored is None or difference.found is None:
        return float("inf")
    return abs(float(difference.stored) - float(difference.found))


def _short(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else str(value)


def _plain(differing: list[Difference]) -> list[dict[str, Any]]:
    return [asdict(difference) for difference in differing]

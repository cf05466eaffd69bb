"""What to freeze: the answers of a sweep, with their intervals, savings and conditions. The store is only read.

permafrost answer
permafrost answer --store results --sweep starter --tolerance 0.5 --json
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from orchestrator.api.answering import NO_ANSWER, lines_of
from orchestrator.api.answering import answer as answers
from orchestrator.config.console import (
    DEFAULT_STORE,
    DebugOption,
    JsonOption,
    StoredSweepOption,
    StoreOption,
    reported,
    say,
    stdout,
)

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer


def answer(
    store: StoreOption = DEFAULT_STORE,
    sweep: StoredSweepOption = None,
    tolerance: Annotated[float, typer.Option(min=0, max=100, help="Acceptable loss of quality in points.")] = 1.0,
    cost: Annotated[
        str | None,
        typer.Option(
            help="The cost to save, e.g. training_flops.",
            show_default="training_flops where recorded, else trainable_params",
        ),
    ] = None,
    most_seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help="The most seeds that will ever be looked at, fixed before the first look.",
            show_default="10, or as many as planned",
        ),
    ] = None,
    at_best: Annotated[
        Literal["lr"] | None,
        typer.Option(
            "--at-best",
            help="Take each setting at its own best learning rate, chosen on seeds that the answer does not use.",
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Say what to freeze, for each corpus, model and train size, or what to run next.

    Examples:
        permafrost answer

        permafrost answer --store results --sweep starter --tolerance 0.5 --json

        permafrost answer --sweep rates --at-best lr

    Exit codes: 0 success, also where nothing is decided yet; 2 invalid option, 3 no store, 5 no such sweep.
    """
    with reported(debug=debug):
        found = answers(store, sweep, tolerance=tolerance, cost=cost, most_seeds=most_seeds, at_best=at_best)
        if as_json:
            print(json.dumps([each.as_json() for each in found]))
        elif found:
            show_answers(found)
        else:
            say(NO_ANSWER)


def show_answers(found: Sequence[Answer], console: Console = stdout) -> None:
    """Print the answers, a paragraph each, with the layer strip of what is recommended."""
    for each in found:
        console.print(f"\n{each.heading}", style="bold")
        console.print(Padding(Text("\n".join(lines_of(each))), (0, 0, 0, 2)))

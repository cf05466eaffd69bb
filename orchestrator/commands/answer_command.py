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

from orchestrator.analysis.answer_text import curve_lines, lines_of, notes_of
from orchestrator.api.answering import NO_ANSWER, answers_of, asked, chosen_sweep, overrides
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, reported, say, stdout
from orchestrator.store import open_store
from orchestrator.store.stored_specs import planned_specs

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer

ToleranceOption = Annotated[
    float | None,
    typer.Option(
        min=0, max=100, help="Acceptable loss of quality in points.", show_default="the sweep's own goal, else 1"
    ),
]
CostOption = Annotated[
    str | None,
    typer.Option(
        help="The cost to save, e.g. training_flops.",
        show_default="the sweep's, else training_flops where recorded, else trainable_params",
    ),
]


def answer(
    store: options.Store = DEFAULT_STORE,
    sweep: options.StoredSweep = None,
    tolerance: ToleranceOption = None,
    cost: CostOption = None,
    min_saving: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.99,
            help="Share of that cost below which a freeze is not worth having.",
            show_default="the sweep's, else 0.1",
        ),
    ] = None,
    most_seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help="The seeds that are planned, fixed before the first look.",
            show_default="the sweep's, else as many as it declares",
        ),
    ] = None,
    at_best: Annotated[
        Literal["lr"] | None,
        typer.Option(
            "--at-best",
            help="Take each setting at its own best learning rate, chosen on seeds that the answer does not use.",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Show all else, too: collapses, rare bad runs, what was not considered, lines for your own code.",
        ),
    ] = False,
    as_json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Say what to freeze, for each corpus, model and train size, or what to run next.

    Examples:
        permafrost answer

        permafrost answer --store results --sweep starter --tolerance 0.5 --json

        permafrost answer --full

        permafrost answer --sweep rates --at-best lr

    Exit codes: 0 success, also where nothing is decided yet; 2 invalid option, 3 no store, 5 no such sweep.
    """
    with reported(debug=debug):
        results = open_store(store)
        plan = chosen_sweep(results, sweep, compares=True)
        used = asked(plan.asks, tolerance=tolerance, cost=cost, min_saving=min_saving, most_seeds=most_seeds)
        answers = answers_of(results, planned_specs(plan), used, at_best)
        if as_json:
            print(json.dumps([entry.as_json() for entry in answers]))
        elif answers:
            if note := overrides(plan.asks, used):
                say(note)
            show_answers(answers, full=full)
            if not full:
                say("more    --full: conditions, what was not considered, lines for your own training code")
        else:
            say(NO_ANSWER)


def show_answers(answers: Sequence[Answer], console: Console = stdout, *, full: bool = False) -> None:
    """Print the answers, two lines each, below them the curve and what each tolerance buys; `full`: then all else."""
    for entry in answers:
        first, second = lines_of(entry)
        console.print(f"\n{entry.heading}", style="bold")
        console.print(Padding(Text(first, style="bold green" if entry.decided else "bold"), (0, 0, 0, 2)))
        console.print(Padding(Text(second), (0, 0, 0, 2)))
        if curve := curve_lines(entry, console.width - 2):
            console.print(Padding(Text("\n".join(curve), no_wrap=True, overflow="ignore"), (1, 0, 0, 2)))
        if full and (notes := notes_of(entry)):
            console.print(Padding(Text("\n".join(notes)), (1, 0, 0, 2)))
        if full and entry.own_training:
            console.print(f"\n  in your own training code:\n\n{entry.own_training.rstrip()}", soft_wrap=True)

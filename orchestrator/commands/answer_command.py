"""What to freeze: the answers of a sweep, with their intervals, savings and conditions. The store is only read.

permafrost answer
permafrost answer --store results --sweep starter --tolerance 0.5 --json
"""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Literal

import typer

from orchestrator.api.answering import NO_ANSWER, answers_of, overrides, plan_with
from orchestrator.commands.shown_answers import show_answers
from orchestrator.config import options
from orchestrator.config.console import DEFAULT_STORE, errors_as_exit_codes, say, stdout
from orchestrator.store import open_store

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
) -> None:
    """Say what to freeze, for each corpus, model and train size, or what to run next.

    Examples:
        permafrost answer

        permafrost answer --store results --sweep starter --tolerance 0.5 --json

        permafrost answer --full

        permafrost answer --sweep rates --at-best lr

    Exit codes: 0 success, also where nothing is decided yet; 2 invalid option, 3 no store, 5 no such sweep.
    """
    with errors_as_exit_codes():
        results = open_store(store)
        plan = results.sweep(sweep, compares=True)
        used = plan_with(
            plan.decision_plan, tolerance=tolerance, cost=cost, min_saving=min_saving, most_seeds=most_seeds
        )
        answers = answers_of(results, plan.specs, used, at_best)
        if as_json:
            print(json.dumps([entry.as_json() for entry in answers]))
        elif answers:
            if note := overrides(plan.decision_plan, used):
                say(note)
            if stdout.is_terminal:
                draws = [partial(show_answers, [entry], full=full) for entry in answers]
                stdout.file.write("".join(stdout.output_that_fits(draws, "answers")))
            else:
                show_answers(answers, full=full)
            if not full:
                say("more    --full: conditions, what was not considered, lines for your own training code")
        else:
            say(NO_ANSWER)

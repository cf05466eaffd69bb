"""What to freeze: the answers of a sweep in a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.analysis.answer_text import NO_ANSWER as NO_ANSWER
from orchestrator.analysis.answer_text import curve_lines, lines_of
from orchestrator.analysis.decision_plan import DecisionPlan
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.store import ResultStore, open_store
from trials.errors import ConfigError
from trials.escaping import escape_line, html
from trials.record import SAVED
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer


class Answers(tuple["Answer", ...]):
    """The answers of a sweep, one for each corpus, model and train size; `print` and notebooks show them in words."""

    __slots__ = ()

    def __str__(self) -> str:
        return (
            "\n\n".join(
                "\n".join([escape_line(entry.heading), *lines_of(entry), *curve_lines(entry)]) for entry in self
            )
            or NO_ANSWER
        )

    def _repr_html_(self) -> str:
        cards = [
            f"<div><strong>{html(entry.heading)}</strong><br>{'<br>'.join(map(html, lines_of(entry)))}</div>"
            for entry in self
        ]
        return "<br>".join(cards) or f"<div>{NO_ANSWER}</div>"


def answer(
    store: str = DEFAULT_STORE,
    sweep: str | None = None,
    *,
    tolerance: float | None = None,
    cost: str | None = None,
    min_saving: float | None = None,
    most_seeds: int | None = None,
    at_best: Literal["lr"] | None = None,
) -> Answers:
    """What to freeze, for each corpus, model and train size of a sweep, or what to run next. The store is only read.

    Args:
        store: A folder, s3://bucket/prefix or gs://bucket/prefix.
        sweep: The name of one of its sweeps; None for the newest.
        tolerance: Acceptable loss in points; None, here and below, for what the sweep itself asks (its `goal`).
        cost: The cost to save, e.g. ``training_flops``.
        min_saving: Share of that cost, 0 to 1, below which a freeze is not worth having.
        most_seeds: The seeds that are planned, fixed before the first look.
        at_best: ``lr`` for each setting at its own best learning rate, chosen on seeds that the answer does not use.

    Raises:
        ConfigError: The cost is unknown, or the trials cannot be compared.
        NothingMatchedError: The store has no such sweep.
        StoreError: The store cannot be read.
    """
    results = open_store(store)
    plan = results.sweep(sweep, compares=True)
    options = {"tolerance": tolerance, "cost": cost, "min_saving": min_saving, "most_seeds": most_seeds}
    return answers_of(results, plan.specs, plan_with(plan.decision_plan, **options), at_best)


def plan_with(plan: DecisionPlan, **options: Any) -> DecisionPlan:
    """A plan with the options that are not None. Raises ConfigError: a value is out of range or unknown."""
    given = {name: value for name, value in options.items() if value is not None}
    if given.get("cost", "training_flops") not in SAVED:
        raise ConfigError(f"--cost: {given['cost']!r} is not one of {', '.join(SAVED)}.")
    try:
        return replace(plan, **given)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error


def overrides(plan: DecisionPlan, used: DecisionPlan) -> str:
    """What was asked other than the sweep asks, in a sentence; empty if nothing."""
    names = {field.name: field.name.replace("_", " ") for field in fields(plan)}
    changes = [
        f"{phrase} {_plain_value(getattr(used, name))} instead of the sweep's {_plain_value(getattr(plan, name))}"
        for name, phrase in names.items()
        if getattr(used, name) != getattr(plan, name)
    ]
    return f"Asked with {', '.join(changes)}." if changes else ""


def _plain_value(value: object) -> str:
    return "own choice" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def answers_of(
    results: ResultStore,
    specs: Sequence[TrialSpec],
    plan: DecisionPlan | None = None,
    at_best: Literal["lr"] | None = None,
) -> Answers:
    """The answers of a sweep's planned trials, by the plan of its decisions; None for the defaults.

    Raises:
        ConfigError: The trials cannot be compared.
        StoreError: The store cannot be read.
    """
    from orchestrator.analysis.answer import answers  # loads pandas
    from orchestrator.analysis.trial_frame import best_rate_trials

    trials = results.evidence(specs)
    try:
        frame = best_rate_trials(trials.frame, trials.specs) if at_best else trials.frame
        return Answers(answers(frame, trials.specs, plan))
    except ValueError as error:
        raise ConfigError(f"{error}.") from error

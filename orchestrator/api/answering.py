"""What to freeze: the answers of a sweep in a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.analysis.answer_text import NO_ANSWER as NO_ANSWER
from orchestrator.analysis.answer_text import lines_of as lines_of
from orchestrator.config.console import DEFAULT_STORE
from orchestrator.store import ResultStore, open_store
from orchestrator.store.contents import SweepPlan, planned_specs
from trials.errors import ConfigError, NothingMatchedError
from trials.escaping.untrusted_text import escaped, html
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from orchestrator.analysis.answer import Answer


class Answers(tuple["Answer", ...]):
    """The answers of a sweep, one for each corpus, model and train size; `print` and notebooks show them in words."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n\n".join("\n".join([escaped(each.heading), *lines_of(each)]) for each in self) or NO_ANSWER

    def _repr_html_(self) -> str:
        cards = [
            f"<div><strong>{html(each.heading)}</strong><br>{'<br>'.join(map(html, lines_of(each)))}</div>"
            for each in self
        ]
        return "<br>".join(cards) or f"<div>{NO_ANSWER}</div>"


def answer(
    store: str = DEFAULT_STORE,
    sweep: str | None = None,
    *,
    tolerance: float = 1.0,
    cost: str | None = None,
    most_seeds: int | None = None,
    at_best: Literal["lr"] | None = None,
) -> Answers:
    """What to freeze, for each corpus, model and train size of a sweep, or what to run next. The store is only read.

    Args:
        store: A folder, s3://bucket/prefix or gs://bucket/prefix.
        sweep: The name of one of its sweeps; None for the newest.
        tolerance: Acceptable loss in points.
        cost: The cost to save, e.g. ``training_flops``; None for that where it is recorded.
        most_seeds: The most seeds that will ever be looked at; None for 10, or as many as planned.
        at_best: ``lr`` for each setting at its own best learning rate, chosen on seeds that the answer does not use.

    Raises:
        ConfigError: The cost is unknown, or the trials cannot be compared.
        NothingMatchedError: The store has no such sweep.
        StoreError: The store cannot be read.
    """
    results = open_store(store)
    plan = chosen_sweep(results, sweep)
    specs = planned_specs(plan)
    return answers_of(results, specs, tolerance, cost, most_seeds, at_best)


def chosen_sweep(results: ResultStore, sweep: str | None) -> SweepPlan:
    """A sweep of a store by its name; None for the newest. Raises NothingMatchedError: there is none."""
    plans = {plan.name: plan for plan in sorted(results.sweeps(), key=lambda plan: plan.time)}
    if not plans:
        raise NothingMatchedError(f"{results.address} holds no sweep.")
    if sweep is not None and sweep not in plans:
        raise NothingMatchedError(f"{results.address} has no sweep {sweep!r}; it has {', '.join(plans)}.")
    return plans[sweep] if sweep is not None else [*plans.values()][-1]


def answers_of(
    results: ResultStore,
    specs: Sequence[TrialSpec],
    tolerance: float = 1.0,
    cost: str | None = None,
    most_seeds: int | None = None,
    at_best: Literal["lr"] | None = None,
) -> Answers:
    """The answers of a sweep's planned trials.

    Raises:
        ConfigError: The cost is unknown, or the trials cannot be compared.
        StoreError: The store cannot be read.
    """
    from orchestrator.analysis.answer import answers  # loads pandas
    from orchestrator.analysis.at_best import at_best_rate
    from orchestrator.analysis.trial_frame import SAVED
    from orchestrator.store.evidence import evidence

    if cost is not None and cost not in SAVED:
        raise ConfigError(f"--cost: {cost!r} is not one of {', '.join(SAVED)}.")
    trials = evidence(results, specs)
    saving: Any = cost
    try:
        frame = at_best_rate(trials.frame, trials.specs) if at_best else trials.frame
        return Answers(answers(frame, trials.specs, tolerance, saving=saving, most_seeds=most_seeds))
    except ValueError as error:
        raise ConfigError(f"{error}.") from error

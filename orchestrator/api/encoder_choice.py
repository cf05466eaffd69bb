"""`choose` over several encoders: each asked alike, then all depths against the best baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.api.answering import Answers
from orchestrator.api.choice import Choice, searched_once_learned
from orchestrator.api.next_steps import steps_over_models
from orchestrator.api.planned_question import PlannedQuestion, plan_question, say_plan
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.session.session import Launch
from trials.draft import Lookup
from trials.errors import ConfigError


def choice_over_models(asked: ChooseOptions, folder: Path, launch: Launch) -> Choice:
    """Each encoder in an equal share of the time, at one train size; then all depths against the best baseline."""
    plans: list[PlannedQuestion] = []
    for model in asked.models:
        asked = replace(plans[-1].asked if plans else asked, model=model)
        plans.append(plan_question(asked, folder, launch.of_time(1 / len(asked.models))))
    fewest = min(planned.train_size for planned in plans)
    plans = [
        planned if planned.train_size == fewest else plan_question(planned.asked, folder, launch, size=fewest)
        for planned in plans
    ]
    for planned in plans:
        say_plan(planned, launch)
    if asked.dry_run:
        return Choice(Answers(), plans[0].path, plan=plans[0].plan, forecast=plans[0].forecast)
    choices, lookup = list[Choice](), Lookup(offline=asked.offline)
    for n, planned in enumerate(plans):
        own = launch.of_time((n + 1) / len(plans))
        plans[n], choice, was_stopped = searched_once_learned(planned, own, lookup)
        choices.append(choice)
        if was_stopped:
            break
    return _best_of(choices, plans, launch)


def _best_of(choices: Sequence[Choice], plans: Sequence[PlannedQuestion], launch: Launch) -> Choice:
    """The choices of several encoders as one: first the answer over all, then that of each."""
    from orchestrator.analysis.comparisons import across_models  # loads pandas

    trials = launch.results.evidence([spec for planned in plans for spec in planned.plan.trials])
    try:
        over_all = across_models(trials.frame, trials.specs, plans[0].plan.sweep.decision_plan)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error
    first = () if over_all is None else (over_all,)
    return replace(
        choices[-1],
        answers=Answers((*first, *(answer for choice in choices for answer in choice.answers))),
        sweep_file=plans[0].path,
        next=tuple(steps_over_models(over_all, trials.specs, plans, launch)),
        exit_code=max(choice.exit_code for choice in choices),
    )

"""What rivals freezing, under the baseline's seeds: low-rank adapters, after the search of `choose`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from orchestrator.api.answering import Answers
from orchestrator.api.rates import sweep_beside
from orchestrator.config.quantities import counted
from orchestrator.own_data.question import NOTHING, Question
from orchestrator.session.session import Launch
from orchestrator.sweeps.plan import Plan
from trials.draft import Lookup
from trials.settings import LoraSpec
from trials.state import State

TIME = 0.25  # share of the time that is kept for adapters
TIMES_RATE = 10.0  # of the rate that trains the weights themselves: Hu et al. 2021 (table 9) have 4e-4 to 5e-4
FEWEST = 3  # seeds


def with_lora(
    answers: Answers, question: Question, searched: Plan, path: Path, launch: Launch, lookup: Lookup
) -> tuple[Answers, int]:
    """The answers with a row for adapters, and the exit code of their sweep.

    They have as many seeds as the baseline, at least three, as far as the time goes.

    Raises as `launch`.
    """
    from orchestrator.analysis.comparisons import settings_against  # loads pandas

    rate = float(f"{TIMES_RATE * float(question.rates.get(NOTHING, question.recipe['optim']['lr'])):.3g}")
    rows = launch.results.trials(["trial_id", "state"]).to_pylist()
    done = {row["trial_id"] for row in rows if row["state"] == State.COMPLETED}
    seeds = [spec.seed for spec in searched.trials if spec.freeze.is_baseline]
    n = sum(spec.freeze.is_baseline and spec.trial_id in done for spec in searched.trials)
    text = question.lora_text(LoraSpec().rank, rate, seeds[: max(n, FEWEST)])
    plan = launch.plan(*sweep_beside(path, "lora-", text), lookup)
    trials = counted(len(plan.to_run), "trial")
    launch.say(f"lora    {trials} of adapters of rank {LoraSpec().rank} in every layer, at a learning rate of {rate:g}")
    with launch.run(plan) as ended:
        frame = launch.results.evidence(plan.trials).frame
    baseline = next(spec.cell_id for spec in plan.trials if spec.freeze.is_baseline)
    labels = {spec.cell_id: f"LoRA {spec.lora.label}" for spec in plan.trials if spec.lora is not None}
    frame = frame.assign(freeze=frame["cell"].map(labels).fillna(frame["freeze"]))
    rows_of = tuple(settings_against(frame, baseline, searched.sweep.decision_plan))
    return Answers(replace(answer, adapters=rows_of) for answer in answers), ended.exit_code

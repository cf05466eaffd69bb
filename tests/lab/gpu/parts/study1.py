"""Study 1's ten trials at true size, as fast as the parts before found possible, against `transformers.Trainer`.

Ours runs whole trials. Of the Trainer a few steps and one evaluation of every trial are measured, and its ten trials
are extrapolated from them, as they would not fit in the time. Neither includes the start of the processes.
"""

from __future__ import annotations

import time
from typing import Any

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import whole_trial
from tests.lab.gpu.trainer_loop import trainer_times
from tests.lab.gpu.workers import workers
from tests.lab.gpu.workload import encode
from trials.spec import TrialSpec, evaluation_steps, steps_an_epoch

GOAL_S, GOAL_SHARE = 60.0, 0.2


def run(context: PartContext, record: Record) -> None:
    """The Trainer first, as it has a fixed number of steps; then ours, until the budget ends."""
    specs = context.workload.study1()
    for spec in specs:
        encode(spec)
    trainer_s = _trainer(context, record, specs)
    n = context.trials_at_a_time()
    record.note(trials_at_a_time=n, precision=specs[0].precision)
    reports: dict[int, dict[str, Any]] = {}
    longest_first = sorted(specs, key=_n_steps, reverse=True)
    jobs = [(whole_trial, {"spec": spec}) for spec in longest_first]
    with workers(n) as pool:
        began = time.perf_counter()
        results = pool.run(jobs, seconds=context.left_s(3.0), on_report=lambda i, figures: reports.update({i: figures}))
        seconds = time.perf_counter() - began
    done = sum(reports[i]["step"] for i in reports)
    total = sum(map(_n_steps, specs))
    is_whole = all(result is not None for result in results)
    ours_s = seconds if is_whole else seconds * total / done if done else None
    record.note(
        trials={spec.label: reports.get(i) for i, spec in enumerate(longest_first)},
        finished=sum(result is not None for result in results), steps_done=done, steps_in_all=total,
        ours_s=ours_s, ours_is=None if ours_s is None else "measured" if is_whole else "extrapolated by steps",
    )  # fmt: skip
    share = None if ours_s is None else ours_s / trainer_s
    record.note(share_of_the_trainer=share)
    if context.on_gpu:
        record.check("seconds of study 1's ten trials", ours_s, GOAL_S, goal=True)
        record.check("their share of the Trainer's seconds", share, GOAL_SHARE, goal=True)


def _trainer(context: PartContext, record: Record, specs: list[TrialSpec]) -> float:
    """Seconds that the ten trials take in a Trainer, one after the other."""
    steps, warm_up = (2, 1) if context.rehearse else (40, 10)
    found, seconds = {}, 0.0
    for spec in specs[:1] if context.rehearse else specs:
        times = trainer_times(spec, context.work / "trainer", steps=steps, warm_up=warm_up)
        whole = _n_steps(spec) * times["step_s"] + _n_evaluations(spec) * times["evaluation_s"]
        found[spec.label], seconds = times | {"whole_trial_s": whole}, seconds + whole
    record.note(trainer=found, trainer_s=seconds, trainer_s_is="extrapolated by steps")
    return seconds


def _n_steps(spec: TrialSpec) -> int:
    return steps_an_epoch(spec) * spec.optim.epochs


def _n_evaluations(spec: TrialSpec) -> int:
    """On dev, and one on test, which is about as large."""
    return len(evaluation_steps(_n_steps(spec), spec.optim.epochs, spec.eval_every)) + 1

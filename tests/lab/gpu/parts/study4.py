"""Study 4's 350 trials, extrapolated from each of its shapes: two tasks times seven freezes.

A shape is run for two epochs at one train size; the first evaluation and the steps before it warm up. A trial is its
set-up, its steps and its evaluations; trials that share the card are measured while they do.
"""

from __future__ import annotations

import time
from typing import Any

import yaml

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import whole_trial
from tests.lab.gpu.workers import workers
from tests.lab.gpu.workload import CONFIGS, changed, encode
from trials.spec import TrialSpec, evaluation_steps, steps_an_epoch

GOAL_S = 300.0


def run(context: PartContext, record: Record) -> None:
    """Seconds of all trials from the seconds of a step, an evaluation and a set-up of every shape."""
    sweep = yaml.safe_load((CONFIGS / "sweeps" / "freezing_bert_glue.yaml").read_text(encoding="utf-8"))
    sizes = [16, 32] if context.rehearse else sweep["space"]["train_size"]
    specs = context.workload.study4(32 if context.rehearse else 200)
    if context.rehearse:
        specs = specs[:3]
    for spec in specs:
        encode(spec)
    n = context.trials_at_a_time()
    began = time.perf_counter()
    with workers(n) as pool:
        jobs = [(whole_trial, {"spec": _short(spec)}) for spec in specs]
        # The first job of a process includes what is done once: every process runs one that does not count.
        pool.run([jobs[0]] * n, seconds=context.left_s(2.0))
        results = pool.run(jobs, seconds=context.left_s(2.0))
    shapes = {spec.label: _shape(result) for spec, result in zip(specs, results, strict=True) if result is not None}
    record.note(trials_at_a_time=n, shapes=shapes, measured_s=time.perf_counter() - began)
    record.note(shapes_in_all=len(specs), extrapolated="set-up + steps + evaluations of every trial, by its shape")
    if len(shapes) < len(specs):
        record.note(why="not every shape was finished in time")
        return
    trials = [(spec.label, changed(spec, train_size=size)) for spec in specs for size in sizes]
    seconds = len(sweep["seeds"]) * sum(_trial_s(trial, shapes[label]) for label, trial in trials)
    record.note(n_trials=len(trials) * len(sweep["seeds"]), seconds_of_all=seconds, wall_s=seconds / n)
    if context.on_gpu:
        record.check("seconds of study 4's 350 trials, extrapolated", seconds / n, GOAL_S, goal=True)


def _short(spec: TrialSpec) -> TrialSpec:
    """Two epochs, so that every kind of step and evaluation is there after the first."""
    return changed(spec, optim={"epochs": 2})


def _shape(result: dict[str, Any]) -> dict[str, float]:
    """Seconds of a step and an evaluation after the first, and of the set-up."""
    steps = result["steps"][-1] - result["steps"][0]
    evaluations = len(result["eval_s"]) - 1
    return {
        "step_s": sum(result["train_s"][1:]) / steps,
        "evaluation_s": sum(result["eval_s"][1:]) / evaluations,
        "setup_s": result["setup_s"],
    }


def _trial_s(spec: TrialSpec, shape: dict[str, float]) -> float:
    steps = steps_an_epoch(spec) * spec.optim.epochs
    evaluations = len(evaluation_steps(steps, spec.optim.epochs, spec.eval_every))
    return shape["setup_s"] + steps * shape["step_s"] + evaluations * shape["evaluation_s"]

"""Optimiser steps as the product takes them and without CUDA graphs, for three freezes in fp32, bf16 and fp16."""

from __future__ import annotations

from math import prod
from typing import Any

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import timed_steps
from tests.lab.gpu.workload import changed
from trials.spec import TrialSpec

WAYS: dict[str, dict[str, Any]] = {"as shipped": {}, "step by step": {"graphs": False}}
GOAL = 1.05  # of the time step by step, on average: graphs are on because they are no slower


def run(context: PartContext, record: Record) -> None:
    """Milliseconds a step."""
    none, every_layer, _, four_layers, _ = context.workload.study1()
    ratios = []
    for precision in ("fp32", "bf16", *(["fp16"] if context.on_gpu else [])):
        for spec in (none, every_layer, four_layers):
            times = _times(context, changed(spec, precision=precision))
            record.note(**{f"{spec.freeze.label}, {precision}, ms a step": times})
            if times["as shipped"]["graphs"]:
                ratios.append(times["as shipped"]["ms"] / times["step by step"]["ms"])
    mean = prod(ratios) ** (1 / len(ratios)) if ratios else None
    record.note(graphs_share_of_step_by_step=mean)
    if context.on_gpu:
        record.check("time of a step with graphs, as a share of that step by step", mean, GOAL, goal=True)


def _times(context: PartContext, spec: TrialSpec) -> dict[str, dict[str, Any]]:
    steps, warm_up = (2, 2) if context.rehearse else (60, 48)
    times = {}
    for way, options in WAYS.items():
        measured = timed_steps(spec, steps, warm_up=warm_up, **options)
        times[way] = {"ms": round(1e3 * measured["seconds"] / steps, 3), "graphs": measured["graphs"]}
    return times

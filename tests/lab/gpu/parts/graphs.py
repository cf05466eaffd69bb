"""Optimiser steps with padded batches, without padding, and as CUDA graphs, for three freezes in fp32 and bf16."""

from __future__ import annotations

from math import prod
from typing import Any

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import timed_steps
from tests.lab.gpu.workload import changed
from trials.spec import TrialSpec

WINS = 0.95  # of the time without graphs, on average
WAYS: dict[str, dict[str, Any]] = {"padded": {"padded": True}, "end to end": {}, "graphs": {"graphs": True}}


def run(context: PartContext, record: Record) -> None:
    """Milliseconds a step; graphs win if they take at most `WINS` of the faster way without, on the geometric mean."""
    none, every_layer, _, four_layers, _ = context.workload.study1()[:5]
    found = []
    for spec in (none, every_layer, four_layers):
        for precision in ("fp32", "bf16"):
            times = _times(context, changed(spec, precision=precision))
            record.note(**{f"{spec.freeze.label}, {precision}, ms a step": times})
            found.append(times)
    without = ("padded", "end to end")
    ratios = [t["graphs"] / min(t[way] for way in without if way in t) for t in found if "graphs" in t]
    layouts = [t["end to end"] / t["padded"] for t in found if "end to end" in t]
    record.note(
        end_to_end_share_of_padded=_mean(layouts), graphs_share_of_the_faster_without=_mean(ratios),
        graphs_win=bool(ratios) and prod(ratios) ** (1 / len(ratios)) <= WINS,
    )  # fmt: skip


def _times(context: PartContext, spec: TrialSpec) -> dict[str, float]:
    steps, warm_up = (2, 2) if context.rehearse else (80, 48)
    times = {}
    for way, options in WAYS.items():
        if way == "end to end" and context.mode()["padded"]:
            continue  # it does not work here
        measured = timed_steps(spec, steps, warm_up=warm_up, **options)
        is_so = {"padded": not measured["padding_free"], "end to end": measured["padding_free"]}
        if is_so.get(way, measured["graphs"]):
            times[way] = round(1e3 * measured["seconds"] / steps, 3)
    return times


def _mean(ratios: list[float]) -> float | None:
    return prod(ratios) ** (1 / len(ratios)) if ratios else None

"""Peak memory estimated against measured: trials share a card by the estimate, until what one holds is measured."""

from __future__ import annotations

import numpy as np

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import whole_trial
from tests.lab.gpu.workload import changed, encode, encoded_lengths
from trials.spec import TrialSpec


def run(context: PartContext, record: Record) -> None:
    """Trials of one epoch that differ in freeze, batch size and longest sentence."""
    from orchestrator.forecast.gpu_memory import gpu_bytes, sizes_of
    from orchestrator.forecast.gpu_share import SPARE

    times = []
    for spec in _specs(context):
        estimated = gpu_bytes(spec, sizes_of(spec.model), encoded_lengths(encode(spec)))
        measured = float(whole_trial(spec)["peak_bytes"])
        times.append(measured / estimated)
        record.note(**{_name(spec): {"measured_bytes": measured, "estimated_bytes": estimated}})
    record.note(median_times=float(np.median(times)), largest_times=max(times), device_has_counter=context.on_gpu)
    if context.on_gpu:
        record.check("measured peak memory in estimates", max(times), SPARE, goal=True)


def _specs(context: PartContext) -> list[TrialSpec]:
    specs = context.workload.study1()[:5]
    few = [changed(spec, train_size=24 if context.rehearse else 320, optim={"epochs": 1}) for spec in specs]
    batches, longest = ((4,), 24) if context.rehearse else ((8, 32), 64)
    other = [changed(few[0], optim={"batch_size": n}) for n in batches]
    return [*few, *other, changed(few[0], max_length=longest)]


def _name(spec: TrialSpec) -> str:
    return f"{spec.freeze.label}, batches of {spec.optim.batch_size}, up to {spec.max_length} subwords"

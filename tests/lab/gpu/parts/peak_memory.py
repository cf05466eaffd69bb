"""Peak memory predicted against measured: each trial by a fit to all others, as a forecast would."""

from __future__ import annotations

import numpy as np

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import whole_trial
from tests.lab.gpu.workload import changed, encode, encoded_lengths
from trials.spec import TrialSpec

WITHIN = 0.25  # of the measured peak


def run(context: PartContext, record: Record) -> None:
    """Trials of one epoch that differ in freeze, batch size and longest sentence."""
    from orchestrator.forecast.regression import fit_terms
    from orchestrator.forecast.work import MEMORY_SHARES, memory_of, sizes_of

    terms, peaks, specs = [], [], _specs(context)
    for spec in specs:
        known = encoded_lengths(encode(spec))
        terms.append(memory_of(spec, sizes_of(spec.model), known, gpu=context.on_gpu).terms)
        peaks.append(float(whole_trial(spec)["peak_bytes"]))
        record.note(**{_name(spec): {"measured_bytes": peaks[-1]}})
    errors = []
    for i, spec in enumerate(specs):
        others = [j for j in range(len(specs)) if j != i]
        fit = fit_terms([terms[j] for j in others], [peaks[j] for j in others], MEMORY_SHARES)
        predicted = fit.of(terms[i])
        errors.append(abs(predicted / peaks[i] - 1))
        record.note(**{_name(spec): {"measured_bytes": peaks[i], "predicted_bytes": predicted}})
    record.note(median_error=float(np.median(errors)), largest_error=max(errors), device_has_counter=context.on_gpu)
    if context.on_gpu:
        record.check("median error of the predicted peak memory", float(np.median(errors)), WITHIN, goal=True)


def _specs(context: PartContext) -> list[TrialSpec]:
    specs = context.workload.study1()[:5]
    few = [changed(spec, train_size=24 if context.rehearse else 320, optim={"epochs": 1}) for spec in specs]
    batches, longest = ((4,), 24) if context.rehearse else ((8, 32), 64)
    other = [changed(few[0], optim={"batch_size": n}) for n in batches]
    return [*few, *other, changed(few[0], max_length=longest)]


def _name(spec: TrialSpec) -> str:
    return f"{spec.freeze.label}, batches of {spec.optim.batch_size}, up to {spec.max_length} subwords"

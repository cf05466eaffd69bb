"""1, 2, 4 and 8 trials at a time on one card, each in a process of its own, and how many a launch would allow."""

from __future__ import annotations

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import timed_steps
from tests.lab.gpu.workers import workers
from tests.lab.gpu.workload import encode, encoded_lengths
from trials.hardware.machine import listed_gpus

WINS = 1.05  # times the steps a second of fewer trials at a time


def run(context: PartContext, record: Record) -> None:
    """Steps a second of all trials together, and the memory that a launch would expect of one."""
    from orchestrator.forecast.gpu_memory import gpu_bytes, sizes_of
    from orchestrator.forecast.gpu_share import CONTEXT_BYTES, fitting

    spec = context.workload.study1()[0]
    peak = gpu_bytes(spec, sizes_of(spec.model), encoded_lengths(encode(spec)))
    gpus = listed_gpus().found[:1]
    fit = fitting(gpus, peak)
    record.note(estimated_bytes=peak, context_bytes=CONTEXT_BYTES, trials_that_fit=fit)
    counts, steps, warm_up = ((1, 2), 2, 1) if context.rehearse else ((1, 2, 4, 8), 100, 64)
    arguments = {"spec": spec, "steps": steps, "warm_up": warm_up}
    rates: dict[int, float] = {}
    with workers(max(counts)) as pool:
        for n in counts:
            if n > max(fit, 1) and context.on_gpu:
                record.note(**{f"{n} at a time": "does not fit"})
                continue
            try:
                found = pool.run([(timed_steps, arguments)] * n, seconds=context.left_s(2.0), together=True)
            except RuntimeError as error:  # out of memory, say: fewer at a time are measured already
                record.note(**{f"{n} at a time": f"failed: {error}"})
                break
            seconds = [result["seconds"] for result in found if result is not None]
            if len(seconds) < n:
                record.note(**{f"{n} at a time": "not finished in time"})
                break
            rates[n] = n * steps / max(seconds)
            record.note(**{f"{n} at a time": {"steps_a_second": rates[n], "ms_a_step": 1e3 * max(seconds) / steps}})
    best = 1
    for n, rate in rates.items():
        best = n if rate > WINS * rates[best] else best
    record.note(best_trials_at_a_time=best, times_the_steps_of_one=rates[best] / rates[1] if rates else None)

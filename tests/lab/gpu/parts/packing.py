"""1, 2, 4 and 8 trials at a time on one card, each in a process of its own, and how many the pilot would allow."""

from __future__ import annotations

import os

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import padded_batches, release, timed_steps
from tests.lab.gpu.workers import workers
from tests.lab.gpu.workload import encode
from trials.run import footprint

WINS = 1.05  # times the steps a second of fewer trials at a time


def run(context: PartContext, record: Record) -> None:
    """Steps a second of all trials together; most memory is known from the pilot."""
    spec, mode = context.workload.study1()[0], context.mode()
    encode(spec)
    with padded_batches(mode["padded"]):
        used = footprint(spec)
    release()
    record.note(pilot_bytes=used.used_bytes, device_bytes=used.total_bytes, **mode)
    try:
        from orchestrator.ray_backend.gpu_packing import share_of_gpu

        record.note(trials_that_the_pilot_packs=round(1 / share_of_gpu(used, len(os.sched_getaffinity(0)))))
    except (ImportError, AttributeError, TypeError) as error:  # without Ray's neighbours, or with a stand-in
        record.note(trials_that_the_pilot_packs=f"not known here: {error}")
    counts, steps, warm_up = ((1, 2), 2, 1) if context.rehearse else ((1, 2, 4, 8), 150, 64)
    arguments = {"spec": spec, "steps": steps, "warm_up": warm_up, **mode}
    rates: dict[int, float] = {}
    with workers(max(counts)) as pool:
        for n in counts:
            if n * used.used_bytes > used.total_bytes and context.on_gpu:
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

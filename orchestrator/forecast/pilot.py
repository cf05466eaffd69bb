"""Pilots: a few dozen steps of each shape of trial in a sweep, run in a separate process.

A pilot is a small trial of the same shape, run by the same training loop: two epochs of a few steps, of which the
second is measured. So it includes everything that a trial does, caches of frozen layers included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from orchestrator.config.quantities import counted
from orchestrator.forecast.observation import PILOT, Inputs, Observation
from orchestrator.forecast.work import (
    PrefixLedger,
    group_key,
    memory_of,
    nothing_cached,
    shape_key,
    work_of,
)
from trials.errors import MissingError
from trials.prefix.rule import cached_depth
from trials.settings import First
from trials.spec import TrialSpec

STEPS = 24  # measured steps
MOST_ITEMS, MOST_DEV = 1_000, 192  # items of train and dev that a pilot reads
MOST_PILOTS = 12
TIMEOUT_S = 900.0


def chosen_pilots(specs: Sequence[TrialSpec], seen: set[str]) -> list[TrialSpec]:
    """One trial of each shape that is not in `seen`; of many, the extremes of each corpus and one between."""
    shapes = {shape_key(spec): spec for spec in reversed(specs)}  # the first of each
    missing = [spec for key, spec in reversed(shapes.items()) if key not in seen]
    if len(missing) <= MOST_PILOTS:
        return missing
    groups: dict[str, list[TrialSpec]] = {}
    for spec in missing:
        groups.setdefault(group_key(spec), []).append(spec)
    ranked = [sorted(group, key=_depth) for group in groups.values()]
    chosen = [group[i] for group in ranked for i in sorted({0, len(group) // 2, len(group) - 1})]
    return chosen[:MOST_PILOTS]


def _depth(spec: TrialSpec) -> tuple[int, int]:
    return spec.freeze.depth + spec.freeze.embeddings, cached_depth(spec)


def pilot_spec(spec: TrialSpec) -> TrialSpec:
    """The pilot of a trial: the first items of the corpus, two epochs."""
    sizes = spec.data.sizes or (spec.train_size, MOST_DEV, 0)
    train, dev, test = min(sizes[0], MOST_ITEMS), min(sizes[1], MOST_DEV), min(sizes[2], 1)
    read = train
    if spec.data.held_out is not None:  # the share comes out of what is read; how many items exactly, digests decide
        read = min(MOST_ITEMS, (spec.data.first and spec.data.first.train) or MOST_ITEMS)
        train = min(sizes[0], int(0.8 * (1 - spec.data.held_out) * MOST_ITEMS))
    size = min(
        train, STEPS * spec.optim.batch_size
    )  # independent of the size of the trial: steps of one shape take the same time
    first = First(train=read, dev=dev, test=test or None)
    data = spec.data.model_copy(update={"first": first, "sizes": (train, dev, test)})
    content = spec.model_dump() | {"data": data.model_dump(), "train_size": size, "eval_every": 1.0}
    return TrialSpec.model_validate(content | {"optim": spec.optim.model_dump() | {"epochs": 2}})


def run_pilots(
    specs: Sequence[TrialSpec], threads: int, say: Callable[[str], None], *, gpu: bool = False
) -> list[Observation]:
    """Run pilots one after the other and return their costs as observations of the given trials.

    Args:
        specs: One trial per shape.
        threads: CPU threads.
        say: Receives a line before the pilots start.
        gpu: Whether they may use a GPU.

    Raises:
        MissingError: The process ended early.
    """
    small = [pilot_spec(spec) for spec in specs]
    command = [sys.executable, "-m", "orchestrator.forecast.pilot_worker", str(threads), "gpu" if gpu else "cpu"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        text = "".join(f"{spec.model_dump_json()}\n" for spec in small)
        say(f"pilot   {counted(len(small), 'shape')}, {2 * STEPS} steps each")
        output, errors = process.communicate(text, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise MissingError(f"the pilot did not end within {TIMEOUT_S:.0f} s. Run again without --pilot.") from error
    finally:
        process.kill()
        process.wait()
    results = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if len(results) < len(small):
        last = errors.strip().splitlines()[-1] if errors.strip() else f"exit code {process.returncode}"
        raise MissingError(f"the pilot of {specs[len(results)].label} failed: {last}")
    return list(_observations(specs, small, results))


def _observations(
    specs: Sequence[TrialSpec], small: Sequence[TrialSpec], results: Sequence[dict[str, float]]
) -> Iterator[Observation]:
    inputs, ledger = Inputs([]), PrefixLedger(nothing_cached)
    for spec, pilot, result in zip(specs, small, results, strict=True):
        read = inputs.of(pilot)
        if read is None:
            continue
        whole = work_of(pilot, *read)
        yield Observation(
            spec=spec,
            work=whole.share(0.5),  # the second of two epochs
            memory=memory_of(pilot, *read),
            launch=PILOT,
            train_s=result["train_s"],
            eval_s=result["eval_s"],
            setup_s=result["setup_s"],
            prefix_s=result["prefix_s"],
            prefix=ledger.take(pilot, *read).of_train,
            energy_j=result["energy_j"],
            peak_memory_bytes=int(result["peak_memory_bytes"]),
            ended=time.time(),
            steps=int(whole.steps / 2),
        )

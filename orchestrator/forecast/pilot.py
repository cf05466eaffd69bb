"""Pilots: a few dozen steps of each shape of trial in a sweep, run in a separate process.

A pilot is a small trial of the same shape that the same training loop runs: two epochs of a few steps (three on a GPU),
of which the last is measured. So it does all that a trial does, including the caching of frozen layers. Its times stay
in the node's cache for a day, so that a command that is run again need not measure them again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from orchestrator.analysis.cells import group_by
from orchestrator.analysis.freeze_names import strip_and_word
from orchestrator.config.quantities import amount
from trials.cache.node_cache import existing_folder, node_folder, read_checked_json, write_json
from trials.errors import MissingError
from trials.hardware.machine import cuda_gpus, processor_name
from trials.plugins.import_origins import folders_for_other_processes
from trials.plugins.loading import loaded_plugins
from trials.prefix.rule import cached_depth
from trials.prefix.work import forward_passes, group_key, scored_items, shape_key, train_passes
from trials.spec import First, TrialSpec, steps_an_epoch

STEPS = 24  # steps of the measured epoch
MOST_ITEMS, MOST_DEV = 1_000, 192  # items of train and dev that a pilot reads at most
MOST_PILOTS = 12  # shapes that are timed at most; others are estimated from these by their passes
TIMEOUT_S = 900.0  # for the process that runs all pilots
KEPT_S = 24 * 3_600.0  # no longer, as the machine may be less busy the next day
_KIND, _FILE = "pilots", "seconds.json"  # folder and file in the node's cache


@dataclass(frozen=True)
class TrialTime:
    """What a trial or its pilot took.

    Attributes:
        passes: Passes of items through layers, in training and evaluation (see `prefix.work`).
        seconds: Time of these passes, in seconds.
        once_s: Seconds of set-up, including those spent on computing the states of frozen layers.
    """

    spec: TrialSpec
    passes: float
    seconds: float
    once_s: float


def work_passes(spec: TrialSpec) -> float:
    """The passes of items through layers that a whole trial makes (see `TrialTime.passes`)."""
    return spec.train_size * spec.optim.epochs * train_passes(spec) + scored_items(spec) * forward_passes(spec)


def chosen_pilots(specs: Sequence[TrialSpec], seen: set[str], most: int | None = None) -> list[TrialSpec]:
    """One trial of each shape not in `seen`; if over `most`, each group's shallowest, middle and deepest, cut to it."""
    most = MOST_PILOTS if most is None else most
    shapes = {shape_key(spec): spec for spec in reversed(specs)}  # the first of each
    missing = [spec for key, spec in reversed(shapes.items()) if key not in seen]
    if len(missing) <= most:
        return missing

    def depth(spec: TrialSpec) -> tuple[int, int]:
        return spec.freeze.depth + spec.freeze.embeddings, cached_depth(spec)

    ranked = [sorted(group, key=depth) for group in group_by(missing, group_key).values()]
    chosen = [group[i] for group in ranked for i in sorted({0, len(group) // 2, len(group) - 1})]
    return chosen[:most]


def n_epochs(*, gpu: bool) -> int:
    """Epochs of a pilot. On a GPU the first step of each batch shape is slow and the second records a CUDA graph."""
    return 3 if gpu else 2


def pilot_spec(spec: TrialSpec, *, gpu: bool = False) -> TrialSpec:
    """The spec of a trial's pilot: the same trial on the first items of its corpus, for `n_epochs` epochs."""
    sizes = spec.data.sizes or (spec.train_size, MOST_DEV, 0)
    train, dev, test = min(sizes[0], MOST_ITEMS), min(sizes[1], MOST_DEV), min(sizes[2], 1)
    read = train
    share = 1 / spec.data.folds if spec.data.folds is not None else spec.data.held_out
    if share is not None:  # dev is taken from the train items; digests decide how many exactly
        read = min(MOST_ITEMS, (spec.data.first and spec.data.first.train) or MOST_ITEMS)
        train = min(sizes[0], int(0.8 * (1 - share) * MOST_ITEMS))
    size = min(
        train, STEPS * spec.optim.batch_size
    )  # `STEPS` batches whatever the trial's size, as steps of one shape take the same time
    first = First(train=read, dev=dev, test=test or None)
    data = spec.data.model_copy(update={"first": first, "sizes": (train, dev, test)})
    content = spec.model_dump() | {"data": data.model_dump(), "train_size": size, "eval_every": 1.0}
    return TrialSpec.model_validate(content | {"optim": spec.optim.model_dump() | {"epochs": n_epochs(gpu=gpu)}})


class Pilots:
    """Runs the pilot of each shape once, however many plans with that shape are forecast."""

    def __init__(self, say: Callable[[str], None], most: int | None = None) -> None:
        """`say` receives one line before the pilots start and one after each; `most` is passed to `chosen_pilots`."""
        self._say, self._most, self._timed = say, most, dict[str, TrialTime]()

    def times(self, specs: Sequence[TrialSpec], seen: set[str], threads: int, *, gpu: bool) -> list[TrialTime]:
        """The times of pilots for the trials of a plan whose shape is not in `seen`. Raises as `run_pilots` does."""
        chosen = {shape_key(spec): spec for spec in chosen_pilots(specs, seen, self._most)}
        missing = [spec for shape, spec in chosen.items() if shape not in self._timed]
        if missing:
            timings = run_pilots(missing, threads, self._say, gpu=gpu)
            self._timed |= {shape_key(timing.spec): timing for timing in timings}
        return [self._timed[shape] for shape in chosen if shape in self._timed]


def run_pilots(
    specs: Sequence[TrialSpec], threads: int, say: Callable[[str], None], *, gpu: bool = False
) -> list[TrialTime]:
    """Run the pilots that were not timed on this machine within a day, one at a time, and return the times of all, in
    the order of `specs`. Raises MissingError: a pilot failed, or they took over `TIMEOUT_S`.
    """
    keys = {spec: _key(spec, threads, gpu=gpu) for spec in specs}
    results = {spec: result for spec, key in keys.items() if (result := _cached_timing(key)) is not None}
    if results:
        say(f"pilot   {amount(len(results), 'shape')} timed here before")
    if unmeasured := [spec for spec in specs if spec not in results]:
        results |= _run(unmeasured, keys, threads, say, gpu=gpu)
    return [_timing(spec, results[spec]) for spec in specs]


def _run(
    specs: Sequence[TrialSpec], keys: Mapping[TrialSpec, str], threads: int, say: Callable[[str], None], *, gpu: bool
) -> dict[TrialSpec, dict[str, float]]:
    """Run pilots in one process, and cache each result as soon as it arrives."""
    small = [pilot_spec(spec, gpu=gpu) for spec in specs]
    command = [sys.executable, "-P", "-m", "orchestrator.forecast.pilot_worker", str(threads), "gpu" if gpu else "cpu"]
    command.append(loaded_plugins().to_json())
    results = list[dict[str, float]]()
    path = [*folders_for_other_processes(), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    say(f"pilot   {amount(len(small), 'shape')}, {n_epochs(gpu=gpu) * STEPS} steps each")
    with tempfile.TemporaryFile("w+") as specs_file, tempfile.TemporaryFile("w+") as errors:
        specs_file.writelines(f"{spec.model_dump_json()}\n" for spec in small)
        specs_file.seek(0)
        with subprocess.Popen(
            command, stdin=specs_file, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        ) as process:
            timer = threading.Timer(TIMEOUT_S, process.kill)
            timer.start()
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith("{"):
                        results.append(json.loads(line))
                        _keep(keys[specs[len(results) - 1]], results[-1])
                        say(f"pilot   {len(results)} of {len(small)}: {_line(specs[len(results) - 1], results[-1])}")
                process.wait()
            finally:
                is_late = timer.finished.is_set()
                timer.cancel()
                process.kill()
        if is_late:
            raise MissingError(f"the pilot did not end within {TIMEOUT_S:.0f} s. Run again without --pilot.")
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if len(results) < len(small):
        last = lines[-1] if lines else f"exit code {process.returncode}"
        raise MissingError(f"the pilot of {specs[len(results)].label} failed: {last}")
    return dict(zip(specs, results, strict=True))


def _key(spec: TrialSpec, threads: int, *, gpu: bool) -> str:
    """The cache key of a pilot: a digest of its spec, threads, device and plug-ins."""
    device = sorted(gpu.name for gpu in cuda_gpus().found) if gpu else processor_name()
    small = pilot_spec(spec, gpu=gpu).model_dump_json()
    return sha256(repr((small, threads, device, loaded_plugins().to_json())).encode()).hexdigest()


def _cached_timing(key: str) -> dict[str, float] | None:
    folder = existing_folder(_KIND, key)
    with suppress(OSError, ValueError):
        if folder is not None and time.time() - (folder / _FILE).stat().st_mtime < KEPT_S:
            result: dict[str, float] = read_checked_json(folder / _FILE, key)
            return result
    return None


def _keep(key: str, result: Mapping[str, float]) -> None:
    with suppress(OSError):  # the cache may be full or not writable, which does no harm
        write_json(node_folder(_KIND, key, 1 << 12) / _FILE, result, key)


def _line(spec: TrialSpec, result: Mapping[str, float]) -> str:
    setting = f"{spec.data.name} {strip_and_word(spec.freeze, spec.model.n_layers)}"
    return f"{setting}, {1_000 * result['train_s'] / steps_an_epoch(pilot_spec(spec)):.0f} ms a step"


def _timing(spec: TrialSpec, result: Mapping[str, float]) -> TrialTime:
    """The time of a pilot: training and evaluation of its last epoch, and the set-up before its first."""
    pilot = pilot_spec(spec)
    _, dev, test = pilot.data.sizes or (0, 0, 0)
    passes = pilot.train_size * train_passes(spec) + (dev + test) * forward_passes(spec)
    return TrialTime(spec, passes, result["train_s"] + result["eval_s"], result["setup_s"])

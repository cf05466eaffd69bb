"""The Ray Tune side of a trial, in the worker: a few lines around the generator of `trials.run`.

One worker process runs many trials, one after the other, and keeps torch, the model's weights and the tokenised
corpora from one to the next. A worker whose memory does not return to its level after a trial is replaced by a new one.
A worker that receives SIGTERM (a spot machine's notice, Slurm's signal) saves a checkpoint of its trial and exits.
The driver loads this module too, but neither torch nor what trains.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.exceptions import RayError

from orchestrator.execution.failures import failure
from orchestrator.execution.trial_settings import TrialSettings
from orchestrator.ray_engine.ray_internals import set_process_title, taken_from_head, write_to_head
from orchestrator.ray_engine.staging import enter_again, load_staged, with_local_files
from trials.cache.set_up_work import EVERY_S, SetUpWork, report_to
from trials.errors import NoDeviceError, is_device_broken
from trials.hardware.machine import VISIBLE
from trials.plugins.loading import LoadedPlugins
from trials.record import EpochRecord, State
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from trials.hardware.device import MemoryLevel

_NAMESPACE = "permafrost-set-up"


def post(trial_id: str, attempt: int, work: SetUpWork) -> None:
    """Write how far an attempt is, in its worker. It is lost if the head does not answer."""
    with suppress(RayError):
        write_to_head(_NAMESPACE, _key(trial_id, attempt), json.dumps(asdict(work)))


class SetUpBoard:
    """How far the set-up of trials without a record is, as their workers write it; in the driver.

    A worker is inside one call for the whole set-up, so Tune cannot carry it, and the key-value store of the cluster's
    head does. Nothing is written where set-ups are short, and nothing is read while every running trial has a record:
    trials of warm workers cost no request.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read: dict[tuple[str, int], float] = {}  # attempt -> when it started or was last read

    def started(self, trial_id: str, attempt: int) -> None:
        """Look for what this attempt writes."""
        self._read[trial_id, attempt] = self._clock()

    def forget(self, trial_id: str) -> None:
        """Look for it no longer: the trial has a record, or has ended."""
        for key in [key for key in self._read if key[0] == trial_id]:
            del self._read[key]

    def new(self) -> list[tuple[str, SetUpWork]]:
        """Trials and how far they are, where that was written since the last call; read every `EVERY_S` seconds."""
        due = [key for key, last in self._read.items() if self._clock() - last >= EVERY_S]
        if not due:
            return []
        self._read |= dict.fromkeys(due, self._clock())
        with suppress(RayError):
            return list(_taken(due))
        return []


def _taken(attempts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, SetUpWork]]:
    keys = {_key(*attempt): attempt[0] for attempt in attempts}
    for key, content in taken_from_head(_NAMESPACE, [*keys]).items():
        yield keys[key], SetUpWork(**json.loads(content))


def _key(trial_id: str, attempt: int) -> str:
    return f"{trial_id}/{attempt}"


STEP = "permafrost"  # the key of a step's result; Tune adds its own (`pid`, `time_total_s`, ...)


@dataclass(frozen=True)
class Failure:
    """What a trial raised.

    Attributes:
        is_unseen: Whether the worker did not see the GPU that it was given.
    """

    state: State
    error: str
    is_unseen: bool


@dataclass(frozen=True)
class Step:
    """What a worker has done up to now: a record, or a failure.

    Attributes:
        notes: What the set-up has to say.
        held_bytes: The most that the process held of its GPU; None without one.
        is_worn: Whether the worker can take no other trial; its next step raises, so that it is replaced.
    """

    record: EpochRecord | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    held_bytes: int | None = None
    is_worn: bool = False


@dataclass(frozen=True)
class WorkerSettings(TrialSettings):
    """The settings that all workers of a sweep share.

    Attributes:
        plugins: What a worker loads before its first trial, from its working folder; None for nothing.
    """

    plugins: LoadedPlugins | None = None


class WornWorkerError(Exception):
    """Ends a worker whose memory has grown, or whose GPU answers no longer. Its last trial was reported."""


class TrialTrainable(tune.Trainable):  # type: ignore[misc]  # Ray has no types here
    """`config` holds an attempt (its `spec` as JSON, `attempt` for its number), its `share`, and `WorkerSettings`."""

    _label = "a worker"
    _records: Iterator[EpochRecord] | None = None
    _memory: MemoryLevel
    _leaving = False
    _trial_id = ""
    _attempt = 0
    _notes: list[str]

    def __init__(self, *args: Any, **options: Any) -> None:
        enter_again()  # Tune asks for the current folder
        super().__init__(*args, **options)

    def __repr__(self) -> str:
        return f"Permafrost({self._label})"

    def setup(self, config: dict[str, Any]) -> None:
        """Take the first trial; its work starts with the first step."""
        import torch

        from trials.hardware.device import MemoryLevel

        if not config["share"].gpus:
            os.environ[VISIBLE] = ""  # whatever the settings of its Ray let it see
        torch.set_num_threads(config["share"].cpus)
        self._memory = MemoryLevel()
        signal.signal(signal.SIGTERM, self._on_sigterm)
        settings: WorkerSettings = config["settings"]
        if settings.plugins is not None:
            load_staged(settings.plugins)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial."""
        self._drop()
        spec = TrialSpec.model_validate_json(new_config["spec"])
        self._label, self._gpus = new_config["label"], float(new_config["share"].gpus)
        self._slots = int(new_config["worker_slots"])
        self._trial_id, self._attempt, self._notes = spec.trial_id, new_config["attempt"], []
        self._records = self.records(spec, new_config)
        return True

    def records(self, spec: TrialSpec, config: dict[str, Any]) -> Iterator[EpochRecord]:
        """Yield the records of the trial."""
        from trials.hardware.device import device_for

        settings: WorkerSettings = config["settings"]
        enter_again()
        spec, device = with_local_files(spec), device_for(config["share"].gpus)
        yield from settings.records(
            spec, config["attempt"], config["accumulation"], device=device, leaving=lambda: self._leaving
        )

    def step(self) -> dict[str, Any]:
        """Run up to the next evaluation. A trial that raises is reported as a result, so that the worker survives.

        Raises:
            WornWorkerError: the trial ended with the previous step, but its memory was not freed, or CUDA failed in it.
                Raising is how a Tune worker gets replaced: one that is stopped is given the next trial.
        """
        if self._records is None:
            raise WornWorkerError(f"the memory of {self._label} was not freed, or its GPU answers no longer")
        set_process_title(f"ray::{self._label}")  # what Ray's dashboard and `ps` list
        return {STEP: self._next_step()}

    def _next_step(self) -> Step:
        assert self._records is not None, "a worker without a trial raises"
        try:
            with report_to(self._report):
                record = next(self._records).with_placement(gpus=self._gpus, worker_slots=self._slots)
        except Exception as error:
            state, text = failure(error)
            failed, is_broken = Failure(state, text, isinstance(error, NoDeviceError)), is_device_broken(error)
        else:
            from trials.hardware.device import reserved_peak

            held = reserved_peak() if self._gpus else None  # before the trial is dropped, with what it holds
            notes, self._notes = tuple(self._notes), []
            return Step(record, None, notes, held, is_worn=record.last and not self._settled())
        if self._leaving:
            sys.exit(0)  # the driver sees a lost worker, and the trial continues elsewhere
        # Only here, as the exception kept the trial's memory alive.
        if is_broken:  # CUDA may work no longer in this process
            with suppress(Exception):
                self._drop()
            return Step(failure=failed, is_worn=True)
        return Step(failure=failed, is_worn=not self._settled())

    def _report(self, work: SetUpWork) -> None:
        if work.is_note:  # of which none may be lost
            self._notes.append(work.what)
        else:
            post(self._trial_id, self._attempt, work)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Save a checkpoint at the next step and exit; without a trial, exit now."""
        self._leaving = True
        if self._records is None:
            sys.exit(0)

    def _settled(self) -> bool:
        """Drop the trial; whether the worker can take another one. If not, the next step ends the worker."""
        self._drop()
        return self._memory.settle()

    def _drop(self) -> None:
        """Close the trial; one that has not ended saves a checkpoint, if the sweep has any."""
        records, self._records = self._records, None
        if isinstance(records, Generator):
            records.close()

    def cleanup(self) -> None:
        """Drop the trial."""
        self._drop()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing, as checkpoints are in the store; Tune calls this all the same."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Nothing."""

"""The Ray Tune side of a trial, in the worker: a few lines around the generator of `trials.run`.

One worker process runs many trials, one after the other, and keeps torch, the model's weights and the tokenised
corpora from one to the next. A worker whose memory does not return to its level after a trial is replaced by a new one.
A worker that receives SIGTERM (a spot machine's notice, Slurm's signal) saves a checkpoint of its trial and exits.
The driver loads this module too, but neither torch nor what trains.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any

from ray import tune

from orchestrator.execution.failures import failure
from orchestrator.execution.trial_settings import TrialSettings
from orchestrator.ray_engine.ray_internals import set_process_title
from orchestrator.ray_engine.staging import enter_again, load_staged, with_local_files
from trials.cache.set_up_work import SetUpWork, report_to
from trials.errors import NoDeviceError, is_device_broken
from trials.hardware.machine import VISIBLE
from trials.plugins.loading import LoadedPlugins
from trials.record import EpochRecord, State
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from trials.hardware.device import MemoryLevel

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
    """What a worker has done up to now: a record, or a failure; or how far the set-up of its trial is.

    Attributes:
        held_bytes: The most that the process held of its GPU; None without one.
        is_worn: Whether the worker can take no other trial; its next step raises, so that it is replaced.
    """

    record: EpochRecord | None = None
    failure: Failure | None = None
    work: SetUpWork | None = None
    held_bytes: int | None = None
    is_worn: bool = False


@dataclass(frozen=True)
class WorkerSettings(TrialSettings):
    """The settings that all workers of a sweep share.

    Attributes:
        plugins: What a worker loads before its first trial, from its working folder; None for nothing.
    """

    plugins: LoadedPlugins | None = None

    def records_here(
        self, spec: TrialSpec, number: int, accumulation: int, gpus: float, leaving: Callable[[], bool]
    ) -> Generator[EpochRecord, None, object]:
        """As `records`, with the files and the device of this node."""
        from trials.hardware.device import device_for

        enter_again()
        spec, device = with_local_files(spec), device_for(gpus)
        return (yield from self.records(spec, number, accumulation, device=device, leaving=leaving))


class WornWorkerError(Exception):
    """Ends a worker whose memory has grown, or whose GPU answers no longer. Its last trial was reported."""


class TrialTrainable(tune.Trainable):  # type: ignore[misc]  # Ray has no types here
    """`config` holds an attempt (its `spec` as JSON, `attempt` for its number), its `share`, and `WorkerSettings`.

    The trial runs in a thread, so that a step can end while the trial is still being set up.
    """

    _label = "a worker"
    _records: Generator[EpochRecord, None, object] | None = None
    _memory: MemoryLevel
    _leaving = _runs = False

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
        self._calls, self._news = SimpleQueue[Callable[[], object]](), SimpleQueue[Any]()
        threading.Thread(target=self._run, name="trial", daemon=True).start()
        if (plugins := config["settings"].plugins) is not None:
            load_staged(plugins)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial."""
        self._drop()
        self._label, self._gpus = new_config["label"], float(new_config["share"].gpus)
        self._slots = int(new_config["worker_slots"])
        spec, settings = TrialSpec.model_validate_json(new_config["spec"]), new_config["settings"]
        number, accumulation = new_config["attempt"], new_config["accumulation"]
        self._records = settings.records_here(spec, number, accumulation, self._gpus, lambda: self._leaving)
        return True

    def _run(self) -> None:
        while True:
            call = self._calls.get()
            try:
                with report_to(self._news.put):
                    self._news.put(call())
            except Exception as error:
                self._news.put(error)

    def step(self) -> dict[str, Any]:
        """Run up to the next evaluation, or report. A trial that raises is a result, so that the worker survives.

        Raises:
            WornWorkerError: the trial ended with the previous step, but its memory was not freed, or CUDA failed in it.
                Raising is how a Tune worker gets replaced: one that is stopped is given the next trial.
        """
        if self._records is None:
            raise WornWorkerError(f"the memory of {self._label} was not freed, or its GPU answers no longer")
        set_process_title(f"ray::{self._label}")  # what Ray's dashboard and `ps` list
        return {STEP: self._next_step(self._records)}

    def _next_step(self, records: Iterator[EpochRecord]) -> Step:
        if not self._runs:
            self._calls.put(partial(next, records))
        news = self._news.get()
        self._runs = isinstance(news, SetUpWork)
        if isinstance(news, SetUpWork):
            return Step(work=news)
        if isinstance(news, EpochRecord):
            from trials.hardware.device import reserved_peak

            held = reserved_peak() if self._gpus else None  # before the trial is dropped, with what it holds
            record = news.with_placement(gpus=self._gpus, worker_slots=self._slots)
            return Step(record, held_bytes=held, is_worn=record.last and not self._settled())
        state, text = failure(news)
        failed, is_broken = Failure(state, text, isinstance(news, NoDeviceError)), is_device_broken(news)
        del news  # it keeps the trial's memory alive
        if self._leaving:
            sys.exit(0)  # the driver sees a lost worker, and the trial continues elsewhere
        if is_broken:  # CUDA may work no longer in this process
            with suppress(Exception):
                self._drop()
            return Step(failure=failed, is_worn=True)
        return Step(failure=failed, is_worn=not self._settled())

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
        """Close the trial; one that has not ended saves a checkpoint, if the sweep has any, unless it is set up now."""
        records, self._records = self._records, None
        if records is not None and not self._runs:
            self._calls.put(records.close)
            if isinstance(error := self._news.get(), Exception):
                raise error

    def cleanup(self) -> None:
        """Drop the trial."""
        self._drop()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing, as checkpoints are in the store; Tune calls this all the same."""

    def load_checkpoint(self, checkpoint: object) -> None:
        """Nothing."""

"""The engine on Ray Tune, which is stepped: Tune keeps workers and resources, and decides nothing.

A trial of Tune is one attempt. Its worker waits at each result until `reply`, as the scheduler answers every result
with NOOP; whoever steps the controller finds in `_Heard` what has happened meanwhile.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from ray import tune
from ray.air.execution import AcquiredResources, ResourceManager, ResourceRequest
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Experiment, Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import SearchAlgorithm

from orchestrator.execution.engine import Engine, Evaluated, Event, Failed, Free, Idle, Preparing, Started
from orchestrator.execution.trial_queue import Attempt
from orchestrator.ray_engine.ray_internals import KILLED, act, killed_workers_are_lost
from orchestrator.ray_engine.slots import Slots, resources_of
from orchestrator.ray_engine.trainable import STEP, Step, TrialTrainable, WorkerSettings
from trials.record import State

WAIT_S = 0.1  # where nothing runs; the controller itself waits as long for an event


class _NothingMore(SearchAlgorithm):  # type: ignore[misc]  # Ray has no types here
    """Tune asks it for trials, of which it gets none: they are added as slots come free."""

    def next_trial(self) -> None:
        """None."""

    def is_finished(self) -> bool:
        """No: Tune ends when it is left."""
        return False

    def save_to_dir(self, *args: Any, **kwargs: Any) -> None:
        """Nothing, as nothing reads it."""


class _Asking(FIFOScheduler):  # type: ignore[misc]  # Ray has no types here
    """Decides nothing: a trial waits at its result, and none is selected.

    Tune's own scheduler selects the first pending trial, which has two costs. To find it, it scans all past and present
    trials at each event. And a trial whose worker is still starting gets the first idle worker, while its own is thrown
    away: if trials are shorter than a worker's start, all workers but one never run a trial.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """None, so that the next trial takes the idle worker, and one that waits for a new worker keeps it."""

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Neither go on nor stop."""
        return str(TrialScheduler.NOOP)


@dataclass
class _Worker(AcquiredResources):  # type: ignore[misc]  # Ray has no types here
    """What a worker asks of Ray.

    Attributes:
        is_here: Whether it inherits the environment of this process. Tune gives workers some variables, for which Ray
            discards those that it has just started.
    """

    is_here: bool

    def annotate_remote_entities(self, entities: list[Any]) -> list[Any]:
        """Its class with its options."""
        options: dict[str, Any] = {"runtime_env": {}} if self.is_here else {}
        (bundle,) = self.resource_request.bundles
        others = {name: amount for name, amount in bundle.items() if name not in ("CPU", "GPU")}
        options |= {"num_cpus": bundle.get("CPU", 0), "num_gpus": bundle.get("GPU", 0), "resources": others}
        return [entity.options(**options) for entity in entities]


class _Unreserved(ResourceManager):  # type: ignore[misc]  # Ray has no types here
    """Has Ray start each worker at once, as slots have counted what is free; Ray lets it wait if need be."""

    def __init__(self, is_here: bool) -> None:
        self._is_here = is_here

    def has_resources_ready(self, resource_request: ResourceRequest) -> bool:
        """Always."""
        return True

    def acquire_resources(self, resource_request: ResourceRequest) -> _Worker:
        """What its worker asks for."""
        return _Worker(resource_request, self._is_here)

    def request_resources(self, *args: Any, **options: Any) -> None:
        """Nothing, as is all below."""

    cancel_resource_request = free_resources = request_resources

    def clear(self) -> None:
        """Nothing."""


@dataclass(frozen=True)
class _News:
    kind: Literal["started", "result", "lost"]
    trial: Trial


class _Heard(tune.Callback):  # type: ignore[misc]  # Ray has no types here
    """The events that the controller reports during a step, to be handled after the step."""

    def __init__(self) -> None:
        self.news = deque[_News]()

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles it into a snapshot that nothing reads

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A worker has taken it."""
        self.news.append(_News("started", trial))

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Its worker has made a step; the result is the trial's last one when the controller's step is over."""
        self.news.append(_News("result", trial))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """The trial's worker is lost."""
        self.news.append(_News("lost", trial))


class TuneEngine(Engine):
    """Runs attempts in workers of the connected cluster, which are reused from one to the next."""

    def __init__(self, folder: Path, slots: Slots, settings: WorkerSettings, *, is_here: bool = True) -> None:
        """`folder`: for Tune's own state; the store is the only source of truth. `is_here`: see `tune_engine`."""
        self._slots, self._settings = slots, settings
        self._experiment = Experiment("sweep", TrialTrainable, storage_path=str(folder))
        self._heard = _Heard()
        self._controller = TuneController(
            search_alg=_NothingMore(),
            scheduler=_Asking(),
            callbacks=[self._heard],
            storage=self._experiment.storage,
            reuse_actors=True,
            resource_manager_factory=partial(_Unreserved, is_here),
        )
        self._attempts: dict[Trial, Attempt] = {}  # those that run
        self._started = set[Trial]()
        self._had_gpu = False  # whether a trial was evaluated on one

    label = staticmethod(attrgetter("label"))  # a trial's name in Ray's dashboard

    def start(self, attempt: Attempt, slot: str) -> None:
        """Hand it to Tune, in a slot of this kind of node."""
        spec = attempt.spec
        share = self._slots.take(spec.trial_id, slot)
        config = {
            "label": self.label(spec) if attempt.number == 1 else f"{self.label(spec)}_{attempt.number}",
            "spec": spec.model_dump_json(),  # as text: Tune copies every level of a config
            "attempt": attempt.number,
            "accumulation": attempt.accumulation,
            "worker_slots": self._slots.on_one_node(slot),
            "share": share,
            "settings": self._settings,
        }
        trial = Trial(
            self._experiment.run_identifier,
            config=config,
            storage=self._experiment.storage,
            placement_group_factory=_bundle(tuple(resources_of(slot, share).items())),
            trial_name_creator=_label,
            trial_dirname_creator=_label,
        )
        self._attempts[trial] = attempt
        self._controller.add_trial(trial)

    def reply(self, attempt: Attempt, *, goes_on: bool) -> None:
        """Have its worker train up to the next evaluation, or take another trial."""
        self._reply(next(trial for trial, running in self._attempts.items() if running is attempt), goes_on=goes_on)

    def _reply(self, trial: Trial, *, goes_on: bool) -> None:
        step: Step = trial.last_result.pop(STEP)  # Tune keeps last results, and this may hold predictions
        if not goes_on:
            self._forget(trial)
        # A worker that is stopped gets the next trial. One that is worn raises at its next step, and is replaced.
        act(self._controller, trial, TrialScheduler.CONTINUE if goes_on or step.is_worn else TrialScheduler.STOP)

    def events(self, preparing: Preparing) -> Generator[Event, None, None]:
        """The events of all workers."""
        while True:
            while (slot := self._slots.free_kind()) is not None:
                n = len(self._attempts)
                yield Free(slot)
                if len(self._attempts) == n:  # there is no attempt for it now
                    break
            if self._attempts:
                self._step()
                while self._heard.news:
                    yield from self._events_of(self._heard.news.popleft(), preparing)
            else:
                time.sleep(WAIT_S)
            yield Idle()

    def close(self) -> None:
        """End the workers; those whose trial has not ended save a checkpoint, if the sweep has any."""
        self._controller.cleanup()

    def _step(self) -> None:
        try:
            self._controller.step()
        except SystemError as error:  # where Ray waits, what the handler of a signal raises becomes its cause
            raise error.__cause__ or error from None

    def _events_of(self, news: _News, preparing: Preparing) -> Iterator[Event]:
        trial = news.trial
        attempt = self._attempts.get(trial)
        if attempt is None:  # it has ended, and now its worker has, too
            return
        if trial not in self._started:
            self._started.add(trial)
            self._slots.started(attempt.spec.trial_id)
            yield Started(attempt)
        if news.kind == "lost":
            error = _error_of(trial)  # of a worker that died or could not start, as what a trial raises is a result
            failed = self._failed(attempt, _state_of_lost(error), f"its worker was lost: {error}")
            self._forget(trial)
            yield failed
        elif news.kind == "result":
            step: Step = trial.last_result[STEP]
            if step.work is not None:
                preparing(attempt.spec, step.work)
                self._reply(trial, goes_on=True)
            elif step.record is not None:
                self._had_gpu = self._had_gpu or step.record.gpus > 0
                self._slots.measured(step.held_bytes or 0)
                yield Evaluated(attempt, step.record)
            elif (failure := step.failure) is not None:
                failed = self._failed(attempt, failure.state, failure.error, is_unseen=failure.is_unseen)
                self._reply(trial, goes_on=False)
                yield failed

    def _failed(self, attempt: Attempt, state: State, error: str, *, is_unseen: bool = False) -> Failed:
        if is_unseen and self._had_gpu:  # or every trial that is left would fail there, one after the other
            return Failed(attempt, State.LOST, error, broken=f"a GPU is gone: {error}")
        relieved = state is State.OUT_OF_MEMORY and self._slots.relieved(attempt.spec.trial_id)
        return Failed(attempt, state, error, relieved)

    def _forget(self, trial: Trial) -> None:
        self._started.discard(trial)
        self._slots.give_back(self._attempts.pop(trial).spec.trial_id)


@contextmanager
def tune_engine(slots: Slots, settings: WorkerSettings, *, is_here: bool = True) -> Iterator[TuneEngine]:
    """An engine on the connected cluster. Where the block raises, workers end with the cluster, which may be gone.

    Args:
        is_here: Whether the cluster is this machine, so that workers inherit the environment of this process.
    """
    logging.getLogger("ray.tune.execution.tune_controller").setLevel(logging.CRITICAL)  # lost workers are events
    with tune_folder() as folder, killed_workers_are_lost():
        engine = TuneEngine(folder, slots, settings, is_here=is_here)
        yield engine
        engine.close()


@cache
def _bundle(resources: tuple[tuple[str, float], ...]) -> tune.PlacementGroupFactory:
    """One object for all trials with the same resources, as each of them keeps it."""
    return tune.PlacementGroupFactory([{name: amount for name, amount in resources if amount}])


def _label(trial: Trial) -> str:
    """Not a closure, because Tune pickles this function with every trial."""
    label: str = trial.config["label"]
    return label


def _error_of(trial: Trial) -> str:
    """Why a trial's worker was lost. Tune's own `get_error` reads a copy of the file that is made later."""
    try:
        return Path(trial.error_file).read_text(encoding="utf-8").strip()
    except (OSError, TypeError):  # TypeError: there is no file
        return "Ray gave no reason"


def _state_of_lost(error: str) -> State:
    if KILLED in error:
        return State.OUT_OF_MEMORY
    return State.FAILED if "creation task" in error else State.LOST


_PREFIX, _LOCK = "permafrost-tune-", "lock"  # of the folder for Tune's state


@contextmanager
def tune_folder() -> Iterator[Path]:
    """A new folder for Tune's own state, of which nothing is needed after a launch; it is removed then.

    The driver holds a lock on it, so the next launch knows which folders a killed one has left, and removes them.
    """
    for stale in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (stale / _LOCK).exists():
            with suppress(OSError), FileLock(stale / _LOCK, blocking=False):  # another user's cannot be opened
                shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with FileLock(folder / f".{_LOCK}"):
            (folder / f".{_LOCK}").rename(folder / _LOCK)  # only now: until it is held anyone could take it
            yield folder

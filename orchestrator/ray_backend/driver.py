"""Run planned trials with Ray Tune: workers are reused from trial to trial, and a callback reports to the listener."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.execution.events import Listener
from orchestrator.execution.stop_request import StopRequest
from orchestrator.execution.trial_queue import TrialQueue, prune_reason
from orchestrator.ray_backend.ray_internals import KILLED, forget_finished, killed_workers_are_lost, signals_stay_ours
from orchestrator.ray_backend.slots import Slots, resources_of
from orchestrator.ray_backend.trainable import (
    FAILURE,
    HELD,
    NOTES,
    RECORD,
    STOPPED,
    UNSEEN,
    SetUpBoard,
    TrialTrainable,
    WorkerSettings,
)
from trials.cache.set_up_work import SetUpWork
from trials.record import EpochRecord, State
from trials.spec import TrialSpec

N_KEPT = 100  # finished trials that stay: Tune's table needs some, and removing them in batches is cheaper


class PlannedTrials(Searcher):  # type: ignore[misc]  # Ray has no types here
    """A Tune searcher that only takes from a queue. Tune keeps asking while there may be another attempt."""

    def __init__(
        self,
        queue: TrialQueue,
        slots: Slots,
        settings: WorkerSettings,
        stop: StopRequest,
        listener: Listener,
    ) -> None:
        """The listener hears of trials elsewhere, and of ticks when there is no attempt. While none runs either, Tune
        asks for one for up to ten minutes and does nothing else, and rows not committed yet may be what another driver
        waits for, as this one does for its rows.
        """
        super().__init__()
        self._listener = listener
        self._queue, self._slots, self._settings, self._stop = queue, slots, settings, stop

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its searcher into a snapshot that nothing reads

    def suggest(self, trial_id: str) -> Any:
        """The next attempt's config; None if there is none or no room now; FINISHED if there will be none."""
        if self._stop.asked or self._queue.is_over:
            return Searcher.FINISHED
        kind = self._slots.free_kind()
        attempt = None if kind is None else self._queue.take()
        for settled in self._queue.settled_elsewhere():
            self._listener.settled(*settled)
        if attempt is None or kind is None:
            self._listener.tick()
            return None
        spec = attempt.spec
        share = self._slots.take(spec.trial_id, kind)
        return {
            "trial_id": spec.trial_id,
            "label": spec.label if attempt.number == 1 else f"{spec.label}_{attempt.number}",
            "spec": spec.model_dump_json(),  # as text: Tune traverses every level of a config, several times
            "attempt": attempt.number,
            "accumulation": attempt.accumulation,
            "resources": resources_of(kind, share),
            "worker_slots": self._slots.on_one_node(kind),
            "share": share,
            "settings": self._settings,
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing to learn from it."""


class KeepOrderScheduler(FIFOScheduler):  # type: ignore[misc]  # Ray has no types here
    """Selects no pending trial, so that Tune starts them in their order.

    Tune's own scheduler selects the first pending trial, which has two costs. To find it, it scans all past and
    present trials at each event. And a trial whose worker is still starting gets the first idle worker, while its own
    is thrown away: if trials are shorter than a worker's start, all workers but one never run a trial.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        """None, so that the next trial takes the idle worker, and one that waits for a new worker keeps it."""
        forget_finished(tune_controller, N_KEPT)  # Tune calls this before each event


MOST_AT_A_TIME = 100_000
_PREFIX, _LOCK = "permafrost-tune-", "lock"  # of the folder for Tune's state


def run_sweep(
    queue: TrialQueue,
    listener: Listener,
    *,
    slots: Slots,
    settings: WorkerSettings,
    stop: StopRequest,
    trainable: type[TrialTrainable] = TrialTrainable,
) -> None:
    """Run the trials of a queue on the connected cluster, and report to the listener.

    Tune needs a folder for its own state. It gets a temporary one, as the store is the only source of truth.
    """
    for name in ("ray.tune.execution.tune_controller", "ray.tune.tune"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # lost workers are reported by the listener
    with tune_folder() as scratch, killed_workers_are_lost(), signals_stay_ours():
        tuner = tune.Tuner(
            tune.with_resources(trainable, _resources),
            tune_config=tune.TuneConfig(
                search_alg=PlannedTrials(queue, slots, settings, stop, listener),
                scheduler=KeepOrderScheduler(),
                num_samples=-1,  # until the queue is over
                reuse_actors=True,
                # Slots limit the trials. Without a number here Tune runs one at a time and the other workers idle.
                max_concurrent_trials=MOST_AT_A_TIME,
                trial_name_creator=_label,
                trial_dirname_creator=_label,
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=str(scratch),
                callbacks=[_ListenerCallback(queue, slots, listener, stop), _NoProgress()],
                stop=_StopAtResult(queue, stop),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                verbose=0,
            ),
        )
        try:
            tuner.fit()
        except SystemError as error:  # where Ray waits, what the handler of a signal raises becomes its cause
            raise error.__cause__ or error from None


def _resources(config: dict[str, Any]) -> tune.PlacementGroupFactory:
    return _bundle(tuple((name, amount) for name, amount in config["resources"].items() if amount))


@cache
def _bundle(resources: tuple[tuple[str, float], ...]) -> tune.PlacementGroupFactory:
    """One object for all trials with the same resources, as each of them keeps it."""
    return tune.PlacementGroupFactory([dict(resources)])


def _label(trial: Trial) -> str:
    """Not a closure, because Tune pickles this function with every trial."""
    label: str = trial.config["label"]
    return label


class _ListenerCallback(tune.Callback):  # type: ignore[misc]  # Ray has no types here
    """Translates Tune's callbacks into events of a `Listener`. Tune's trials are our attempts."""

    def __init__(self, queue: TrialQueue, slots: Slots, listener: Listener, stop: StopRequest) -> None:
        self._queue, self._slots, self._listener, self._stop = queue, slots, listener, stop
        self._started: dict[str, int] = {}  # trial -> attempt
        self._board = SetUpBoard()
        self._had_gpu = False  # whether a trial was evaluated on one

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its callbacks into a snapshot that nothing reads

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        for trial_id, work in self._board.new():
            if (attempt := self._queue.running(trial_id)) is not None:
                self._listener.preparing(attempt.spec, work)
        self._listener.tick()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        spec, number = self._spec(trial), trial.config["attempt"]
        if spec is not None and self._started.get(spec.trial_id) != number:
            self._started[spec.trial_id] = number
            self._board.started(spec.trial_id, number)
            self._listener.started(spec, number)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        spec = self._spec(trial)
        if spec is None:
            return
        self._board.over(spec.trial_id)
        if FAILURE in result:
            failed = result[FAILURE]
            is_gone = failed[UNSEEN] and self._had_gpu
            if is_gone:  # or every trial that is left would fail there, one after the other
                self._stop.reason = self._stop.reason or f"a GPU is gone: {failed['error']}"
            state = State.LOST if is_gone else State(failed["state"])
            self._end(spec, state, failed["error"])
            return
        # Removed from the result, as Tune keeps last results for a while, and this one may hold predictions.
        record: EpochRecord = result[RECORD].pop("record")
        is_stopped: bool = result[RECORD].pop(STOPPED, False)
        for note in result[RECORD].pop(NOTES, ()):
            self._listener.preparing(spec, SetUpWork(note))
        self._had_gpu = self._had_gpu or record.gpus > 0
        self._slots.measured(result[RECORD].pop(HELD, None) or 0)
        self._listener.evaluated(spec, record)
        if record.last:
            self._end(spec, State.COMPLETED, None)
        elif is_stopped:
            self._end(spec, State.PRUNED, prune_reason(record))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        # A trial that raises is reported as a result, so this is a worker that died or could not start. If its
        # trial has already ended, that is fine: the worker may have been replaced because of its memory.
        self.on_trial_start(iteration, trials, trial)
        spec = self._spec(trial)
        if spec is not None:
            error = _error_of(trial)
            self._end(spec, _state_of_lost(error), f"its worker was lost: {error}")

    def _spec(self, trial: Trial) -> TrialSpec | None:
        """The spec that Tune's trial is an attempt at; None if that attempt has ended."""
        attempt = self._queue.running(trial.config["trial_id"])
        return attempt.spec if attempt is not None and attempt.number == trial.config["attempt"] else None

    def _end(self, spec: TrialSpec, state: State, error: str | None) -> None:
        relieved = state is State.OUT_OF_MEMORY and self._slots.relieved(spec.trial_id)
        self._slots.give_back(spec.trial_id)
        self._started.pop(spec.trial_id, None)
        self._board.over(spec.trial_id)
        again = self._queue.ended(spec, state, error, relieved=relieved)
        if again is None:
            self._listener.ended(spec, state, error)
        else:
            self._listener.retried(spec, state, error)
        self._stop.reason = self._stop.reason or self._queue.broken


class _NoProgress(TrialProgressCallback):  # type: ignore[misc]  # Ray has no types here
    """Replaces Tune's default callback, which prints and keeps references to what it printed."""

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        """Print nothing."""

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Print nothing."""

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Print nothing."""


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


class _StopAtResult(tune.Stopper):  # type: ignore[misc]  # Ray has no types here
    """Ends a running trial at its next result, once the sweep is asked to stop or if the queue says so.

    Tune calls this before the callbacks, so the evaluation is passed to the queue here, and what it says is added to
    the result.
    """

    def __init__(self, queue: TrialQueue, stop: StopRequest) -> None:
        self._queue, self._stop = queue, stop

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        step = result.get(RECORD)
        attempt = None if step is None else self._queue.running(step["trial_id"])
        if step is None or attempt is None or attempt.number != step["attempt"]:
            return self._stop.asked
        step[STOPPED] = not self._queue.evaluated(attempt.spec, step["record"])
        return self._stop.asked or step[STOPPED]

    def stop_all(self) -> bool:
        return False


@contextmanager
def tune_folder() -> Iterator[Path]:
    """A new folder for Tune's own state, of which nothing is needed after a launch; it is removed then.

    The driver holds a lock on it, so the next launch knows which folders a killed one has left, and removes them.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (left / _LOCK).exists():
            with suppress(OSError), FileLock(left / _LOCK, blocking=False):  # another user's cannot be opened
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with FileLock(folder / f".{_LOCK}"):
            (folder / f".{_LOCK}").rename(folder / _LOCK)  # only now: until it is held anyone could take it
            yield folder

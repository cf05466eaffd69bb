"""Run planned trials with Ray Tune: warm workers take one trial after the other, a callback tells the listener."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from orchestrator.cluster import Cluster, Share
from orchestrator.events import Listener
from orchestrator.search.feed import PlannedTrials
from orchestrator.stop import StopRequest
from orchestrator.store.schema import State
from orchestrator.trainable import FAILURE, RECORD, TrialTrainable
from trials.record import EpochRecord
from trials.spec import Predictions, TrialSpec


def run_sweep(
    specs: Sequence[TrialSpec],
    listener: Listener,
    *,
    cluster: Cluster,
    share: Share,
    predictions: Predictions,
    stop: StopRequest,
    trainable: type[TrialTrainable] = TrialTrainable,
) -> None:
    """Run the trials on a cluster and tell the listener.

    Tune wants a folder for its own state. It gets a temporary one: the store is the only truth.
    """
    for name in ("ray.tune.execution.tune_controller", "ray.tune.tune"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # a lost worker is told by the listener, in our words
    litter = tempfile.mkdtemp(prefix="permafrost-tune-")
    planned = {spec.trial_id: spec for spec in specs}
    try:
        tune.Tuner(
            tune.with_resources(trainable, {"cpu": share.cpus, "gpu": share.gpus}),
            tune_config=tune.TuneConfig(
                search_alg=PlannedTrials(specs, share=share, predictions=predictions, stop=stop),
                num_samples=len(specs),
                reuse_actors=True,
                max_concurrent_trials=cluster.slots(share),  # without it, reused actors leave all slots but one idle
                trial_name_creator=_label,
                trial_dirname_creator=_label,
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=litter,
                callbacks=[_Relay(listener, planned)],
                stop=_StopOnRequest(stop),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                verbose=0,
            ),
        ).fit()
    finally:
        shutil.rmtree(litter, ignore_errors=True)


def _label(trial: Trial) -> str:
    """Tune pickles this function with every trial, so it holds nothing."""
    label: str = trial.config["label"]
    return label


def _spec(trial: Trial, planned: Mapping[str, TrialSpec]) -> TrialSpec:
    return planned[trial.config["trial_id"]]


class _Relay(tune.Callback):  # type: ignore[misc]  # Ray has no types here
    """Tune's callbacks, in the words of a `Listener`."""

    def __init__(self, listener: Listener, planned: Mapping[str, TrialSpec]) -> None:
        self._listener, self._planned, self._over = listener, planned, set[str]()

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its callbacks into a snapshot that nobody reads

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self._listener.tick()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._listener.started(_spec(trial, self._planned))

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        spec = _spec(trial, self._planned)
        if FAILURE in result:
            failed = result[FAILURE]
            self._end(spec, State(failed["state"]), failed["error"])
            return
        # Taken out, as Tune keeps every trial's last result to the end, and this one may hold its predictions.
        record: EpochRecord = result[RECORD].pop("record")
        self._listener.evaluated(spec, record)
        if record.last:
            self._end(spec, State.COMPLETED, None)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        # A trial that raises is reported as a result, so this is a worker that died or could not start. What befalls
        # a worker whose trial is over, and told, is no matter: it may be worn.
        if trial.config["trial_id"] not in self._over:
            self._end(_spec(trial, self._planned), State.FAILED, f"its worker was lost: {trial.get_error()}")

    def _end(self, spec: TrialSpec, state: State, error: str | None) -> None:
        self._over.add(spec.trial_id)
        self._listener.ended(spec, state, error)


class _StopOnRequest(tune.Stopper):  # type: ignore[misc]  # Ray has no types here
    """Ends each running trial at its next result once stopping is asked for."""

    def __init__(self, stop: StopRequest) -> None:
        self._stop = stop

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return self._stop.asked

    def stop_all(self) -> bool:
        return False

"""Past trials of a store as observations: the newest of one device and number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from orchestrator.analysis.cells import grouped
from orchestrator.forecast.gpu_share import packed_share
from orchestrator.forecast.work import (
    EncoderSizes,
    Lengths,
    PrefixLedger,
    PrefixWork,
    Work,
    group_key,
    is_replayed,
    lengths_of,
    nothing_cached,
    shape_key,
    sizes_of,
    work_of,
)
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.store.stored_specs import stored_spec
from orchestrator.sweeps.cluster_spec import ClusterSpec, cores_here, gpus_here
from orchestrator.sweeps.sweep import Resources
from trials.errors import PermafrostError, StoreError
from trials.hardware.machine import processor_name
from trials.record import paid_prefix_s
from trials.spec import TrialSpec
from trials.training.step_rule import graphs_are_off

# An observed trial or pilot: its work and what it took.

PILOT = "pilot"  # the launch name of pilots, which were measured just now


@dataclass(frozen=True)
class Observation:
    """The cost of one trial.

    Attributes:
        launch: Its launch, as the speed of the machine varies between launches; `PILOT` for pilots.
        prefix_s: Seconds that it spent on the states of `prefix` itself.
        prefix: The states of frozen layers that it presumably computed, without those whose time is in `eval_s`.
        ended: Unix time of its end.
        steps: Measured steps of a pilot.
    """

    spec: TrialSpec
    work: Work
    launch: str
    train_s: float
    eval_s: float
    setup_s: float
    prefix_s: float
    prefix: PrefixWork
    ended: float
    steps: int = 0

    @property
    def is_pilot(self) -> bool:
        """Whether it is a pilot and not a whole trial."""
        return self.launch == PILOT

    @property
    def seconds(self) -> float:
        """Seconds of the whole trial."""
        return self.train_s + self.eval_s + self.setup_s + self.prefix_s

    @cached_property
    def shape(self) -> str:
        """See `shape_key`."""
        return shape_key(self.spec)

    @cached_property
    def group(self) -> str:
        """See `group_key`."""
        return group_key(self.spec)


class Inputs:
    """Model sizes and sentence lengths of trials, read once per model and corpus.

    The files of a past trial may have moved; if a planned trial has the same content, its files are read instead.

    Attributes:
        planned: The planned trials.
    """

    def __init__(self, planned: Iterable[TrialSpec]) -> None:
        self.planned = tuple(planned)
        self._planned: dict[str, TrialSpec] = {}
        for spec in self.planned:
            self._planned.setdefault(group_key(spec), spec)
        self._read: dict[str, tuple[EncoderSizes, Lengths] | None] = {}

    def knows(self, spec: TrialSpec) -> bool:
        """Whether a planned trial has the same model and corpus."""
        return group_key(spec) in self._planned

    def of(self, spec: TrialSpec) -> tuple[EncoderSizes, Lengths] | None:
        """The sizes and lengths of a trial; None if its files cannot be read."""
        key = group_key(spec)
        if key not in self._read:
            self._read[key] = _read(self._planned.get(key, spec))
        return self._read[key]


def _read(spec: TrialSpec) -> tuple[EncoderSizes, Lengths] | None:
    try:
        return sizes_of(spec.model), lengths_of(spec)
    except (OSError, ValueError, PermafrostError):  # the files are gone, so the work of the trial is unknown
        return None


MOST_ROWS = 1_000
MOST_OTHERS = 4  # pairs of model and corpus that are not in the sweep and are read only for this
LAUNCH_GAP_S = 30.0  # trials at most this far apart belong to one launch
JUST_NOW_S = 1_800.0  # a launch that ended within this time shows the current speed of the machine
_COLUMNS = [
    "state", "device", "threads", "gpus", "train_s", "eval_s", "setup_s", "prefix_s", "prefix_paid_s",
    "prefix_layers", "accumulation", "padding_free", "step_mode", "refused_modes", "time",
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """The device that trials will run on.

    Attributes:
        device: Its name as in rows; None if unknown.
        gpus: GPUs per trial; a fraction if trials share one.
    """

    device: str | None
    threads: int
    gpus: float


@dataclass(frozen=True)
class History:
    """Past trials on a device.

    Attributes:
        observations: Oldest first.
        newest_launch: The launch that ended just now, if any.
    """

    observations: tuple[Observation, ...]
    target: Target
    newest_launch: str | None


def read_history(store: ResultStore, cluster: ClusterSpec, resources: Resources, inputs: Inputs, now: float) -> History:
    """The past trials on the device that a sweep will run on. Raises StoreError."""
    done = [row for row in store.trials(_COLUMNS).to_pylist() if row["state"] == State.COMPLETED]
    rows = sorted(done, key=lambda row: row["time"])
    target = _target(rows, cluster, resources, inputs)
    chosen = [row for row in rows if _is_comparable(row, target)][-MOST_ROWS:]
    readable = _with_specs(store, chosen)
    if target.gpus:
        readable = [row for row in readable if _steps_as_now(row)]
    observed = _observed(readable, inputs, gpu=target.gpus > 0)
    newest = observed[-1] if observed and now - observed[-1].ended < JUST_NOW_S else None
    return History(
        observations=tuple(observed),
        target=target,
        newest_launch=newest.launch if newest else None,
    )


def _target(rows: Sequence[dict[str, Any]], cluster: ClusterSpec, resources: Resources, inputs: Inputs) -> Target:
    """The device: the CPU or the GPU of this machine; of a cluster, and of a machine without a GPU for trials on one,
    that of the newest trial. Trials that share a GPU have the share that a launch would begin with, where none ran yet.
    """
    asked, here = resources.gpus, ""
    if cluster.is_here:
        here = next((gpu.name for gpu in gpus_here(cluster)), "") if asked else ""
        if asked == 0 or (asked == "auto" and not here):
            return Target(processor_name(), resources.cpus, 0.0)
    for row in reversed(rows):
        has_gpu = (row["gpus"] or 0) > 0
        if (asked == "auto" or has_gpu == (asked != 0)) and here in ("", row["device"]):
            share = row["gpus"] if isinstance(asked, str) else asked
            return Target(row["device"], resources.cpus, float(share or 0.0))
    if isinstance(asked, float):
        return Target(here or None, resources.cpus, asked)
    share = 1.0
    if here and asked == "packed":
        share = packed_share(gpus_here(cluster), cores_here(cluster), resources.cpus, inputs.planned, inputs.of)
    return Target(here or None, resources.cpus, share)


def _is_comparable(row: dict[str, Any], target: Target) -> bool:
    """Whether the times of a row apply to the target: for a GPU the share of it must agree, else the threads.

    Batches that lay end to end on a GPU, as they did once, took several times as long.
    """
    on_gpu = row["gpus"] == target.gpus and not row["padding_free"]
    same = on_gpu if target.gpus else row["threads"] == target.threads
    return bool(row["device"] == target.device and same and row["train_s"])


def _steps_as_now(row: dict[str, Any]) -> bool:
    """Whether steps on a GPU would run as those of a row did: replayed as CUDA graphs, or kernel by kernel, which takes
    several times as long. Rows of before there were modes were not replayed.
    """
    if row["step_mode"] == "graphs":
        return not graphs_are_off()
    return not is_replayed(row["spec"]) or (row["refused_modes"] or "").startswith("graphs:")


def _with_specs(store: ResultStore, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their specs, without those that this version cannot read."""
    wanted = {(row["trial_id"], row["attempt"]) for row in rows}
    if not wanted:
        return []
    table = store.trials(["spec"])
    ids, attempts = table["trial_id"].to_pylist(), table["attempt"].to_pylist()
    places = [i for i, key in enumerate(zip(ids, attempts, strict=True)) if key in wanted]
    texts = dict(zip((ids[i] for i in places), table["spec"].take(places).to_pylist(), strict=True))
    readable = []
    for row in rows:
        try:
            readable.append(row | {"spec": stored_spec(texts[row["trial_id"]], row["trial_id"])})
        except StoreError:
            continue
    return readable


def _observed(rows: Iterable[dict[str, Any]], inputs: Inputs, *, gpu: bool) -> list[Observation]:
    """Observations from rows in order of time, including a few other models and corpora, the newest ones.

    Those show how the speed of the machine varies; the rows of the sweep itself may all be of one launch.
    """
    rows = list(rows)
    others = dict.fromkeys(group_key(row["spec"]) for row in reversed(rows) if not inputs.knows(row["spec"]))
    wanted = set(list(others)[:MOST_OTHERS])
    ledger, observations = PrefixLedger(nothing_cached), list[Observation]()
    for row, launch in zip(rows, _launches(rows), strict=True):
        spec: TrialSpec = row["spec"]
        if not inputs.knows(spec) and group_key(spec) not in wanted:
            continue
        read = inputs.of(spec)
        if read is None:
            continue
        states = ledger.take(spec, *read)
        observations.append(
            Observation(
                spec=spec,
                work=work_of(spec, *read, gpu=gpu),
                launch=launch,
                train_s=row["train_s"],
                eval_s=row["eval_s"],
                setup_s=row["setup_s"],
                prefix_s=paid_prefix_s(row),
                prefix=states if row["prefix_paid_s"] is None else states.of_train,
                ended=row["time"].timestamp(),
            )
        )
    return observations


def _launches(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The launch of each row; trials that end shortly after one another belong to one launch."""
    names, last = list[str](), float("-inf")
    for row in rows:
        began = row["time"].timestamp() - row["train_s"] - row["eval_s"] - row["setup_s"]
        if began - last > LAUNCH_GAP_S:
            name = f"{began:.0f}"
        names.append(name)
        last = row["time"].timestamp()
    return names


def gaps(observations: Sequence[Observation]) -> list[tuple[Observation, float]]:
    """Seconds lost before each trial to commits, checkpoints and scheduling; unknown for the first trial of a slot.

    Slots are inferred from overlapping trials; a trial runs on the slot that was freed last before it began.
    """
    lost, slots = list[tuple[Observation, float]](), dict[str, list[float]]()
    for observation in sorted(observations, key=lambda observation: observation.ended - observation.seconds):
        free, began = slots.setdefault(observation.launch, []), observation.ended - observation.seconds
        before = [i for i, end in enumerate(free) if end <= began + 0.05]
        if not before:
            free.append(observation.ended)
            continue
        slot = max(before, key=lambda i: free[i])
        lost.append((observation, max(began - free[slot], 0.0)))
        free[slot] = observation.ended
    return lost


def cold_s(observations: Sequence[Observation]) -> float:
    """Extra set-up seconds of the first trial of a worker: median over launches of the maximum less the median."""
    launches = grouped(observations, lambda observation: observation.launch).values()
    of_launch = [[observation.setup_s for observation in launch] for launch in launches if len(launch) > 2]
    extra = [max(times) - float(np.median(times)) for times in of_launch]
    return float(np.median(extra)) if extra else 0.0

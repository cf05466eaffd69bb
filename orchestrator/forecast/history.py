"""Past trials of a store as observations of cost: the newest of one device and number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from orchestrator.store import ResultStore
from orchestrator.store.stored_specs import stored_spec
from orchestrator.sweeps.cluster_spec import ClusterSpec, gpus_here
from orchestrator.sweeps.trial_resources import Resources
from trials.errors import StoreError
from trials.hardware.machine import processor_name
from trials.models.family import MODEL_FAMILIES
from trials.prefix.work import group_key, scored_items, shape_key
from trials.record import paid_prefix_s
from trials.spec import TrialSpec
from trials.state import State
from trials.training.step_rule import graphs_are_off

MOST_ROWS = 1_000
LAUNCH_GAP_S = 30.0  # trials at most this far apart belong to one launch
_COLUMNS = [
    "trial_id", "state", "device", "threads", "gpus", "train_s", "eval_s", "setup_s", "prefix_s", "prefix_paid_s",
    "prefix_layers", "accumulation", "padding_free", "step_mode", "refused_modes", "time", "spec",
]  # fmt: skip


@dataclass(frozen=True)
class Observation:
    """What a trial or a pilot of it took.

    Attributes:
        launch: Its launch, as the speed of the machine varies between launches; empty for a pilot.
        trained, scored: Items trained on and items evaluated, each as often as it was.
        train_s, eval_s: Their seconds.
        once_s: Seconds of set-up, with what it spent on the states of frozen layers itself.
        steps: Measured steps of a pilot.
    """

    spec: TrialSpec
    launch: str
    trained: float
    scored: float
    train_s: float
    eval_s: float
    once_s: float
    steps: int = 0

    @property
    def is_pilot(self) -> bool:
        """Whether it is a pilot and not a whole trial."""
        return not self.launch

    @cached_property
    def shape(self) -> str:
        """See `shape_key`."""
        return shape_key(self.spec)

    @cached_property
    def group(self) -> str:
        """See `group_key`."""
        return group_key(self.spec)


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
    """Past trials on a device, oldest first."""

    observations: tuple[Observation, ...]
    target: Target


def read_history(store: ResultStore, cluster: ClusterSpec, resources: Resources) -> History:
    """The past trials on the device that a sweep will run on. Raises StoreError."""
    table = store.trials(_COLUMNS)
    table = table.filter(pc.equal(table["state"], State.COMPLETED)).sort_by("time")
    rows = table.drop_columns(["spec"]).to_pylist()
    target = _target(rows, cluster, resources)
    chosen = [i for i, row in enumerate(rows) if _is_comparable(row, target)][-MOST_ROWS:]
    return History(tuple(_observed([rows[i] | {"spec": table["spec"][i].as_py()} for i in chosen], target)), target)


def _target(rows: Sequence[dict[str, Any]], cluster: ClusterSpec, resources: Resources) -> Target:
    """The device: the CPU or the GPU of this machine; of a cluster, and of a machine without a GPU for trials on one,
    that of the newest trial. How many share a GPU nobody knows before one has run: then each counts as alone.
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
    return Target(here or None, resources.cpus, asked if isinstance(asked, float) else 1.0)


def _is_comparable(row: dict[str, Any], target: Target) -> bool:
    """Whether the times of a row apply to the target: for a GPU the share of it must agree, else the threads.

    Batches that lay end to end on a GPU, as they did once, took several times as long.
    """
    on_gpu = row["gpus"] == target.gpus and not row["padding_free"]
    same = on_gpu if target.gpus else row["threads"] == target.threads
    return bool(row["device"] == target.device and same and row["train_s"])


def _observed(rows: Sequence[dict[str, Any]], target: Target) -> Iterator[Observation]:
    """Observations from rows in order of time, without those whose spec this version cannot read.

    Rows that end shortly before the next one begins belong to one launch.
    """
    last, launch = float("-inf"), ""
    for row in rows:
        ended, seconds = row["time"].timestamp(), row["train_s"] + row["eval_s"] + row["setup_s"]
        if ended - seconds - last > LAUNCH_GAP_S:
            launch = f"{ended - seconds:.0f}"
        last = ended
        try:
            spec = stored_spec(row["spec"], row["trial_id"])
        except StoreError:
            continue
        if target.gpus and not _steps_as_now(row, spec):
            continue
        yield Observation(
            spec=spec,
            launch=launch,
            trained=spec.train_size * spec.optim.epochs,
            scored=scored_items(spec),
            train_s=row["train_s"],
            eval_s=row["eval_s"],
            once_s=row["setup_s"] + paid_prefix_s(row),
        )


def _steps_as_now(row: Mapping[str, Any], spec: TrialSpec) -> bool:
    """Whether steps on a GPU would run as those of a row did: replayed as CUDA graphs, or kernel by kernel, which takes
    several times as long. Rows of before there were modes were not replayed.

    Steps are replayed of families that take a ready mask, unless the environment or a node refuses it.
    """
    if row["step_mode"] == "graphs":
        return not graphs_are_off()
    family = MODEL_FAMILIES.get(spec.model.family)
    is_replayed = not graphs_are_off() and family is not None and family.square_mask
    return not is_replayed or (row["refused_modes"] or "").startswith("graphs:")

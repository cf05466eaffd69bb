"""Rows of a store as observations: the newest trials of one device and number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from orchestrator.forecast.observation import Inputs, Observation
from orchestrator.forecast.work import PrefixLedger, group_key, memory_of, nothing_kept, work_of
from orchestrator.store import ResultStore
from orchestrator.store.schema import TABLES, State
from orchestrator.store.specs import stored_spec
from orchestrator.sweeps.cluster_spec import ClusterSpec
from orchestrator.sweeps.sweep import Resources
from trials.errors import StoreError
from trials.hardware.cpu_name import processor_name
from trials.spec import TrialSpec

MOST_ROWS, MOST_OTHERS = 1_000, 4  # rows; corpora and models other than the sweep's own, which have to be read for it
LAUNCH_GAP_S = 30.0  # trials with no more than this between them are of one launch
JUST_NOW_S = 1_800.0  # a launch that ended within this tells how fast the machine is now
_COLUMNS = [
    "state", "device", "threads", "gpus", "train_s", "eval_s", "setup_s", "prefix_s", "prefix_layers", "energy_j",
    "peak_memory_bytes", "accumulation", "time",
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """What trials will run on.

    Attributes:
        device: Its name as rows have it; None where no row tells.
        threads: CPU threads of a trial.
        gpus: GPUs of a trial; a fraction where several share one.
    """

    device: str | None
    threads: int
    gpus: float


@dataclass(frozen=True)
class History:
    """What was seen on a device.

    Attributes:
        observations: Oldest first.
        target: The device.
        rows: Completed trials of the store, of any device.
        bytes_a_trial: That the store takes for one; None without any.
        newest_launch: The launch that ended just now, if one did.
    """

    observations: tuple[Observation, ...]
    target: Target
    rows: int
    bytes_a_trial: float | None
    newest_launch: str | None


def read_history(store: ResultStore, cluster: ClusterSpec, resources: Resources, inputs: Inputs, now: float) -> History:
    """What a store has seen of the device that a sweep will run on. Raises what reading the store raises."""
    table = store.trials(_COLUMNS)
    done = table.filter(pc.equal(table["state"], State.COMPLETED.value))
    rows = sorted(done.to_pylist(), key=lambda row: row["time"])
    target = _target(rows, cluster, resources)
    chosen = [row for row in rows if _fits(row, target)][-MOST_ROWS:]
    observed = _observed(_with_specs(store, chosen), inputs)
    n_bytes = sum(sum(store.storage.at(name).files().values()) for name in TABLES)
    newest = observed[-1] if observed and now - observed[-1].ended < JUST_NOW_S else None
    return History(
        observations=tuple(observed),
        target=target,
        rows=len(rows),
        bytes_a_trial=n_bytes / len(rows) if rows else None,
        newest_launch=newest.launch if newest else None,
    )


def _target(rows: Sequence[dict[str, Any]], cluster: ClusterSpec, resources: Resources) -> Target:
    """The device: on this machine its CPU; of a GPU, or of nodes elsewhere, what the newest trial ran on."""
    wants_gpu = resources.gpus == "packed" or resources.gpus > 0
    if not wants_gpu and cluster.address in ("local", "inline"):
        return Target(processor_name(), resources.cpus, 0.0)
    for row in reversed(rows):
        if (row["gpus"] or 0) > 0 if wants_gpu else row["device"].startswith("cpu"):
            share = row["gpus"] if resources.gpus == "packed" else resources.gpus
            return Target(row["device"], resources.cpus, float(share))
    return Target(None, resources.cpus, 1.0 if resources.gpus == "packed" else resources.gpus)


def _fits(row: dict[str, Any], target: Target) -> bool:
    """Whether a row's times are those of the target: of a GPU the threads hardly matter, what share it was does."""
    alike = row["gpus"] == target.gpus if target.gpus else row["threads"] == target.threads
    return bool(row["device"] == target.device and alike and row["train_s"])


def _with_specs(store: ResultStore, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their specs, read for these only; those that this version cannot read are left out."""
    wanted = {(row["trial_id"], row["attempt"]) for row in rows}
    if not wanted:
        return []
    table = store.trials(["spec"])
    ids, attempts = table["trial_id"].to_pylist(), table["attempt"].to_pylist()
    places = [i for i, key in enumerate(zip(ids, attempts, strict=True)) if key in wanted]
    texts = dict(zip((ids[i] for i in places), table["spec"].take(places).to_pylist(), strict=True))
    found = []
    for row in rows:
        try:
            found.append(row | {"spec": stored_spec(texts[row["trial_id"]], row["trial_id"])})
        except StoreError:
            continue
    return found


def _observed(rows: Iterable[dict[str, Any]], inputs: Inputs) -> list[Observation]:
    """Observations of rows in order of time; of other corpora and models those that were trained last.

    They tell how fast the machine was when: a sweep's own rows may be of one launch, which says nothing of that.
    """
    rows = list(rows)
    others = dict.fromkeys(group_key(row["spec"]) for row in reversed(rows) if not inputs.knows(row["spec"]))
    wanted = set(list(others)[:MOST_OTHERS])
    ledger, found = PrefixLedger(nothing_kept), list[Observation]()
    for row, launch in zip(rows, _launches(rows), strict=True):
        spec: TrialSpec = row["spec"]
        if not inputs.knows(spec) and group_key(spec) not in wanted:
            continue
        read = inputs.of(spec)
        if read is None:
            continue
        found.append(
            Observation(
                spec=spec,
                work=work_of(spec, *read),
                memory=memory_of(spec, *read),
                launch=launch,
                train_s=row["train_s"],
                eval_s=row["eval_s"],
                setup_s=row["setup_s"],
                prefix_s=row["prefix_s"] or 0.0,
                prefix=ledger.take(spec, *read),
                energy_j=row["energy_j"],
                peak_memory_bytes=row["peak_memory_bytes"],
                ended=row["time"].timestamp(),
            )
        )
    return found


def _launches(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A name for the launch of each row: trials that ended one soon after the other."""
    names, last = list[str](), float("-inf")
    for row in rows:
        began = row["time"].timestamp() - row["train_s"] - row["eval_s"] - row["setup_s"]
        if began - last > LAUNCH_GAP_S:
            name = f"{began:.0f}"
        names.append(name)
        last = row["time"].timestamp()
    return names


def gaps(observations: Sequence[Observation]) -> list[tuple[Observation, float]]:
    """Seconds that were lost before each trial: commits, checkpoints, hand-over; not known for a slot's first one.

    A trial is put on the slot that was free last before it began; slots are told from trials that overlap.
    """
    found, lanes = list[tuple[Observation, float]](), dict[str, list[float]]()
    for one in sorted(observations, key=lambda each: each.ended - each.seconds):
        free, began = lanes.setdefault(one.launch, []), one.ended - one.seconds
        before = [i for i, end in enumerate(free) if end <= began + 0.05]
        if not before:
            free.append(one.ended)
            continue
        lane = max(before, key=lambda i: free[i])
        found.append((one, max(began - free[lane], 0.0)))
        free[lane] = one.ended
    return found


def cold_s(observations: Sequence[Observation]) -> float:
    """Seconds more that a worker's first trial takes to set up: median over launches of the most over the usual."""
    of_launch: dict[str, list[float]] = {}
    for one in observations:
        of_launch.setdefault(one.launch, []).append(one.setup_s)
    extra = [max(times) - float(np.median(times)) for times in of_launch.values() if len(times) > 2]
    return float(np.median(extra)) if extra else 0.0

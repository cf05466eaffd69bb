"""Slots for trials: where the next trial runs, and how many more the nodes of each kind have room for.

Nodes come and go while a sweep runs: a spot machine is reclaimed, an autoscaler adds one. So they are counted
repeatedly, and a trial is only handed to Tune when there is room for it, or when `concurrency` asks for more than there
is room, which makes an autoscaler add nodes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch

from orchestrator.analysis.cells import grouped
from orchestrator.config.quantities import counted, gpus_in_words
from orchestrator.execution.events import Listener, StopRequest, failure
from orchestrator.execution.recorder import StoredCheckpoints
from orchestrator.execution.trial_source import Attempt, TrialQueue, Verdict, prune_reason
from orchestrator.storage.open_storage import open_storage
from orchestrator.store.contents import save_weights
from orchestrator.store.schema import State
from orchestrator.sweeps.sweep import Resources, SweepSpec
from trials.cache.node_cache import reported_to
from trials.errors import ConfigError
from trials.hardware.device import device_for
from trials.record import EpochRecord
from trials.run import run_trial
from trials.settings import CheckpointTimes, Predictions
from trials.spec import TrialSpec
from trials.training.checkpoint import Checkpoints

REFRESH_S = 2.0
ANY = ""  # the kind of a trial that may run on any node


@dataclass(frozen=True)
class Share:
    """The part of a node that one trial gets.

    Attributes:
        cpus: Cores, and threads for its arithmetic.
        gpus: GPUs; a fraction shares one.
    """

    cpus: int = 1
    gpus: float = 0.0


@dataclass(frozen=True)
class Node:
    """A node's total resources.

    Attributes:
        kind: Its accelerator as Ray names it, e.g. ``A100``; ``cpu`` if it has none.
        cpus, gpus: Their numbers.
    """

    kind: str
    cpus: float
    gpus: float

    def room(self, share: Share) -> int:
        """The number of trials that fit on it; no trial spans two nodes."""
        by_cpus = int(self.cpus // share.cpus)
        return min(by_cpus, int(self.gpus / share.gpus + 1e-9)) if share.gpus else by_cpus


def kinds_of(nodes: Sequence[Node], *, gpus: bool) -> dict[str, list[Node]]:
    """The nodes of each kind; for trials on GPUs only those that have one."""
    return dict(sorted(grouped((node for node in nodes if node.gpus or not gpus), lambda node: node.kind).items()))


def chosen_kinds(nodes: Sequence[Node], device: str, *, gpus: bool) -> tuple[str, ...]:
    """The kinds of node that trials run on. Raises ConfigError.

    Args:
        device: ``any``; ``one`` for the kind with the most capacity; or a kind.
    """
    by_kind = kinds_of(nodes, gpus=gpus)
    if device == "any":
        return tuple(by_kind) if gpus else (ANY,)
    if device == "one":
        most = {kind: sum(node.gpus if gpus else node.cpus for node in of) for kind, of in by_kind.items()}
        return (max(most, key=lambda kind: (most[kind], kind)),) if most else ()
    if device not in by_kind:
        raise ConfigError(
            f"resources.device: {device}: the cluster has {', '.join(by_kind) or 'no GPU'}. Name one of these, or use "
            "`any` to spread trials over all, or `one` for the largest.",
            exit_code=3,
        )
    return (device,)


class Slots:
    """The slots for trials, by kind of node.

    Attributes:
        shares: What a trial gets on each kind.
    """

    def __init__(
        self,
        shares: Mapping[str, Share],
        nodes: Callable[[], Sequence[Node]],
        *,
        concurrency: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`nodes` returns those that are up; `concurrency` trials are handed out whether there is room or not."""
        self.shares = dict(shares)
        self._nodes, self._concurrency, self._clock = nodes, concurrency, clock
        self._taken: dict[str, str] = {}  # trial -> kind
        self._room: dict[str, int] = {}
        self._most: dict[str, int] = {}  # kind -> room of the node with the most
        self._refreshed_s = float("-inf")

    def total(self) -> int:
        """The number of trials that can run at the same time."""
        self._refresh()
        room = sum(self._room.values())
        return room if self._concurrency is None else min(room, self._concurrency)

    def described(self) -> str:
        """For display, e.g. `16 trials at a time, 0.25 of a GPU each on A100`, with the nodes that get no trial."""
        named = {kind: f" on {kind}" if kind not in (ANY, "cpu", "gpu") else "" for kind in self.shares}
        gpu_parts = [
            f", {gpus_in_words(share.gpus)} each{named[kind]}" for kind, share in self.shares.items() if share.gpus
        ]
        idle = sum(node.cpus > 0 == node.gpus for node in self._nodes()) if gpu_parts else 0
        rest = f"; {counted(idle, 'node')} without a GPU {'get' if idle > 1 else 'gets'} none" if idle else ""
        return f"{counted(self.total(), 'trial')} at a time" + ("".join(gpu_parts) or "".join(named.values())) + rest

    def free_kind(self) -> str | None:
        """The kind of node that the next trial runs on; None if it has to wait."""
        self._refresh()
        if self._concurrency is not None and len(self._taken) >= self._concurrency:
            return None
        taken = Counter(self._taken.values())
        free = {kind: self._room.get(kind, 0) - taken[kind] for kind in self.shares}
        kind = max(free, key=lambda kind: (free[kind], kind))
        return kind if free[kind] > 0 or self._concurrency is not None else None

    def on_one_node(self, kind: str) -> int:
        """The number of trials that can run at the same time on one node of a kind, on the largest if they differ."""
        most = max(self._most.get(kind, 0), 1)
        return most if self._concurrency is None else min(most, self._concurrency)

    def take(self, trial_id: str, kind: str) -> Share:
        """Assign a slot to a trial."""
        self._taken[trial_id] = kind
        return self.shares[kind]

    def give_back(self, trial_id: str) -> None:
        """Free the slot of a trial, if it has one."""
        self._taken.pop(trial_id, None)

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._refreshed_s < REFRESH_S:
            return
        self._refreshed_s, nodes = now, self._nodes()
        rooms = {
            kind: [node.room(share) for node in nodes if kind in (ANY, node.kind)]
            for kind, share in self.shares.items()
        }
        self._room = {kind: sum(of_nodes) for kind, of_nodes in rooms.items()}
        self._most = {kind: max(of_nodes, default=0) for kind, of_nodes in rooms.items()}


# Run planned trials in this process, one after the other: the reference for Ray, and the way to set breakpoints.


@dataclass(frozen=True)
class TrialSettings:
    """What all trials of a launch share, wherever they run.

    Attributes:
        predictions: Which are stored.
        store: Address of the store, where checkpoints and weights are saved.
        checkpoint: When trials save checkpoints; None for never.
        keep_weights: Whether completed trials store their trained tensors.
    """

    predictions: Predictions
    store: str
    checkpoint: CheckpointTimes | None
    keep_weights: bool = False

    @classmethod
    def of(cls, sweep: SweepSpec, store: str, **more: Any) -> Self:
        """Those of a sweep."""
        return cls(sweep.predictions, store, sweep.checkpoint.times, sweep.keep == "weights", **more)

    def records(
        self,
        spec: TrialSpec,
        number: int,
        accumulation: int,
        *,
        device: torch.device,
        leaving: Callable[[], bool] = lambda: False,
    ) -> Generator[EpochRecord, None, object]:
        """An attempt at a trial; `leaving` says that its process has to end."""
        storage = StoredCheckpoints(self.store, spec.trial_id, number)
        return run_trial(
            spec,
            device=device,
            predictions=self.predictions,
            checkpoints=Checkpoints(storage, self.checkpoint, leaving=leaving) if self.checkpoint else None,
            accumulation=accumulation,
            keep_weights=partial(save_weights, open_storage(self.store), spec.trial_id) if self.keep_weights else None,
        )


def run_inline(
    queue: TrialQueue, listener: Listener, *, resources: Resources, settings: TrialSettings, stop: StopRequest
) -> None:
    """Run the trials of a queue in order and report to the listener; the same rows as `run_sweep` except for times."""
    torch.set_num_threads(resources.cpus)
    device = device_for(1.0 if resources.gpus == "packed" else float(resources.gpus))
    while not (stop.asked or queue.is_over):
        attempt = queue.take()
        if attempt is None:
            listener.tick()  # others may wait for rows that are not committed yet
            time.sleep(0.1)  # a trial waits for its next attempt, or for another driver
            continue
        listener.started(attempt.spec, attempt.number)
        error: str | None = None
        try:
            records = settings.records(attempt.spec, attempt.number, attempt.accumulation, device=device)
            with reported_to(partial(listener.preparing, attempt.spec)):
                state, error = _run(attempt, records, queue, listener, stop)
            if state is None:
                return
        except Exception as raised:
            state, error = failure(raised)
        report = listener.ended if queue.ended(attempt.spec, state, error) is None else listener.retried
        report(attempt.spec, state, error)
        stop.reason = stop.reason or queue.broken


def _run(
    attempt: Attempt,
    records: Generator[EpochRecord, None, object],
    queue: TrialQueue,
    listener: Listener,
    stop: StopRequest,
) -> tuple[State | None, str | None]:
    """Run an attempt; its state and the reason if it is not completed. The state is None if the sweep was stopped."""
    for record in (unplaced.placed(gpus=unplaced.gpus, worker_slots=1) for unplaced in records):
        verdict = queue.evaluated(attempt.spec, record)
        listener.evaluated(attempt.spec, record)
        if record.last:
            return State.COMPLETED, None
        if stop.asked or verdict is not Verdict.CONTINUE:
            records.close()
            return (None, None) if verdict is Verdict.CONTINUE else (State.PRUNED, prune_reason(verdict, record))
    raise AssertionError("a trial ends with its last record")

"""The share of a node that a trial gets, by kind of node; where trials share a GPU, by what memory they take.

The first trial starts at once, others follow two at a time on each node. How many share a GPU is estimated before that;
what the first trial's process held corrects it, and so does each larger trial; others only lower it. Where memory runs
out all the same, the trial runs again with half as many on its GPU, and so do all that follow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.config.quantities import counted, size
from orchestrator.execution.slots import Node, Share, Slots, chosen_kinds, kinds_of
from orchestrator.forecast.gpu_share import SPARE, Read, estimated_bytes, fitting, most_on_a_gpu, share_of
from orchestrator.ray_backend.cluster import Cluster, checked, node_of
from orchestrator.sweeps.trial_resources import Resources
from trials.errors import ConfigError, MissingError, reason
from trials.hardware.machine import CudaGpus, Gpu, SilentError, listed_gpus
from trials.record import EpochRecord
from trials.spec import TrialSpec

SAY_S, ANSWER_S = 20.0, 120.0  # for nodes to say what GPUs they have: one has to be free, and torch to be imported
CRUMB = 0.0001  # of a GPU, the least that Ray counts
FULL = 0.75  # of the trials that may share GPUs: with fewer on average, a trial did not have the company of the others
AT_ONCE = 2  # workers that start on a node at the same time, once the first is up

Say = Callable[[str], None]


@dataclass
class Packed:
    """The trials that share GPUs of one kind.

    Attributes:
        gpus: What is known of each, at least of one on each node; empty where no node answered.
        most: How many trials cores and host memory allow on a GPU, and how many there are for each.
        now: How many share one.
        fewest: How many at most since memory ran out with more.
    """

    gpus: Sequence[Gpu]
    most: int
    now: int = 1
    fewest: float = math.inf


class Company:
    """How many trials run at the same time, over the time of each."""

    def __init__(self) -> None:
        self._joined: dict[str, tuple[float, float]] = {}  # trial -> when, and the trials times seconds until then
        self._at, self._sum = 0.0, 0.0

    def joined(self, trial_id: str, now: float) -> None:
        """A trial runs from now on."""
        self._add_up(now)
        self._joined.setdefault(trial_id, (now, self._sum))

    def left(self, trial_id: str, now: float) -> None:
        """A trial has ended."""
        self._add_up(now)
        self._joined.pop(trial_id, None)

    def mean(self, trial_id: str, now: float) -> float:
        """The mean number of trials since this one began, itself included."""
        self._add_up(now)
        began, before = self._joined.get(trial_id, (now, self._sum))
        return (self._sum - before) / (now - began) if now > began else float(len(self._joined))

    def _add_up(self, now: float) -> None:
        self._sum += len(self._joined) * (now - self._at)
        self._at = now


class PackedSlots(Slots):
    """Slots of trials that share GPUs: see above."""

    def __init__(
        self,
        packed: Mapping[str, Packed],
        cpus: int,
        nodes: Callable[[], Sequence[Node]],
        specs: Sequence[TrialSpec],
        read: Read,
        *,
        concurrency: int | None = None,
        say: Say = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read` returns the sizes of a trial's model and the lengths in its corpus; `specs` are those that may run."""
        self._packed, self._cpus, self._read, self._say = dict(packed), cpus, read, say
        self._estimate = estimated_bytes(specs, read)
        self._held: float | None = None  # the most that a process was measured to hold
        self._scale = (
            0.0,
            1.0,
        )  # of the measured trial with the largest estimate: that, and what it held as a multiple
        self._began = False
        self._starting = set[str]()  # trials whose worker is new, and not up yet
        self._idle = 0  # workers whose trial has ended: the next one takes its place at once
        self._with: dict[str, int] = {}  # trial -> how many were to share its GPU when it started
        self._company = {kind: Company() for kind in self._packed}
        super().__init__({}, nodes, concurrency=concurrency, clock=clock)
        for kind in self._packed:
            self._set(kind, self._fitting(kind))
            free = [gpu.free_bytes for gpu in self._packed[kind].gpus if gpu.free_bytes is not None]
            if self._estimate and free and not fitting(self._packed[kind].gpus, self._estimate):
                needs = f"a trial may take {size(self._estimate)}, of which {size(min(free))} are free"
                self._say(f"note    {needs} on {kind if kind != 'gpu' else 'the GPU'}")

    def free_kind(self) -> str | None:
        """As of `Slots`; nor while as many workers start as may at the same time. With a `concurrency`, trials beyond
        the room that there is do not wait for that: an autoscaler has to see them.
        """
        self._refresh()
        n_nodes = max(1, sum(self._n_nodes[kind] for kind in self._packed))
        at_once = (AT_ONCE if self._began else 1) * n_nodes
        has_room = self._concurrency is None or len(self._taken) < sum(self._room.values())
        may_wait = has_room and any(packed.now > 1 for packed in self._packed.values())
        if may_wait and not self._idle and len(self._starting) >= at_once:
            return None
        return super().free_kind()

    def take(self, trial_id: str, kind: str) -> Share:
        """Assign a slot to a trial."""
        if self._idle:  # or Tune would give it to a trial whose own worker is starting, and throw that one away
            self._idle -= 1
        else:
            self._starting.add(trial_id)
        self._with[trial_id] = self._packed[kind].now
        return super().take(trial_id, kind)

    def started(self, trial_id: str) -> None:
        """Another worker may start."""
        self._starting.discard(trial_id)
        self._began = True
        if (kind := self._taken.get(trial_id)) is not None:
            self._company[kind].joined(trial_id, self._clock())

    def give_back(self, trial_id: str, *, worker_ends: bool = False) -> None:
        """Free the slot of a trial, if it has one."""
        if self._with.pop(trial_id, None) and trial_id not in self._starting:
            self._idle += not worker_ends
            self._company[self._taken[trial_id]].left(trial_id, self._clock())
        self._starting.discard(trial_id)
        super().give_back(trial_id)

    def measured(self, spec: TrialSpec, record: EpochRecord, held_bytes: int | None = None) -> EpochRecord:
        """The record of a trial, with the trials that ran beside it, while others started or the last ones ended, as
        its `worker_slots`: it was faster then. What its process held of the GPU corrects the estimate; the record's
        peak leaves out the pools of CUDA graphs.
        """
        kind = self._taken.get(spec.trial_id)
        if kind is None:
            return record
        if held_bytes:
            self._correct(spec, float(held_bytes), kind)
        beside = self._company[kind].mean(spec.trial_id, self._clock()) / max(1, self._n_nodes[kind])
        slots = record.worker_slots
        if slots is None or record.gpus >= 1 or beside >= FULL * slots:
            return record
        return replace(record, worker_slots=max(1, round(beside)))

    def _correct(self, spec: TrialSpec, held: float, kind: str) -> None:
        """Correct the estimate by what a trial's process held. Only the first and those whose estimate is larger than
        all measured before let more share a GPU: the scale of a trial that is nearly all frozen is not that of others.
        """
        may_raise = self._held is None
        self._held = max(held, self._held or 0.0)
        estimate = estimated_bytes([spec], self._read)
        if estimate is not None and estimate >= self._scale[0]:
            may_raise = may_raise or estimate > self._scale[0]
            self._scale = estimate, held / estimate
        for each, packed in self._packed.items():
            n = self._fitting(each)
            if (may_raise and n > packed.now) or (n < packed.now and self._fitting(each, spare=1.0) < packed.now):
                self._set(each, n)
                self._say(f"note    a trial took {size(held)} of {kind or 'a GPU'}: {self._words(each)} from now on")

    def relieved(self, trial_id: str) -> bool:
        """Whether a trial whose memory ran out shared its GPU; then half as many share one from now on."""
        kind = self._taken.get(trial_id)
        if kind is None:
            return False
        packed, beside = self._packed[kind], sum(other == kind for other in self._taken.values())
        if beside < 2 or self._with[trial_id] < 2:
            return False
        if self._with[trial_id] == packed.now:  # else fewer share one already since it started
            packed.fewest = max(1, min(packed.now - 1, (min(beside, packed.now) + 1) // 2))
            self._set(kind, int(packed.fewest))
            self._say(f"note    memory ran out with {counted(beside, 'trial')}: {self._words(kind)} from now on")
        return True

    def _fitting(self, kind: str, spare: float = SPARE) -> int:
        """How many trials share a GPU, by what is known now; 1 where nothing is. `spare` is for what is not measured:
        until the largest trial is, its estimate.
        """
        packed, (largest, scale) = self._packed[kind], self._scale
        estimate = (self._estimate or 0.0) * scale
        needed = max(self._held or 0.0, estimate * (spare if largest < (self._estimate or 0.0) else 1.0))
        fits = fitting(packed.gpus, needed, spare=1.0) if needed else 1
        return int(max(1, min(fits, packed.most, packed.fewest)))

    def _set(self, kind: str, n: int) -> None:
        self._packed[kind].now = n
        self.shares[kind], self._idle = Share(self._cpus, share_of(n)), 0  # a worker of another share takes no trial
        self._refreshed_s = float("-inf")

    def _words(self, kind: str) -> str:
        return f"{counted(self._packed[kind].now, 'trial')} on {f'each {kind}' if kind != 'gpu' else 'a GPU'}"


def slots_for(
    cluster: Cluster,
    resources: Resources,
    specs: Sequence[TrialSpec],
    *,
    read: Read | None = None,
    concurrency: int | None = None,
    here: Sequence[Gpu] = (),
    most: int | None = None,
    say: Say = lambda line: None,
) -> Slots:
    """The slots for trials on a cluster.

    With `auto` trials run on GPUs only, if any node has one on which CUDA works now, else on cores.

    Args:
        specs: The trials that may run.
        read: As of `PackedSlots`; by default their files are read.
        here: The GPUs of this machine, if it is all of the cluster; else the nodes are asked.
        most: The most trials that will run.

    Raises:
        ConfigError: no node has what a trial needs, or there is no GPU to pack trials on.
    """
    nodes, gpus = cluster.nodes(), resources.gpus
    if isinstance(gpus, float):
        # While no node has a GPU, trials wait for whatever kind an autoscaler adds.
        kinds = chosen_kinds(nodes, resources.device, gpus=gpus > 0) or ("gpu",)
        slots = Slots(dict.fromkeys(kinds, Share(resources.cpus, gpus)), cluster.nodes, concurrency=concurrency)
        return checked(slots, cluster, may_grow=concurrency is not None)
    packed = dict[str, Packed]()
    if resources.device != "cpu" and (by_kind := kinds_of(nodes, gpus=True)):
        chosen = {kind: by_kind[kind] for kind in chosen_kinds(nodes, resources.device, gpus=True)}
        found = dict.fromkeys(chosen, CudaGpus(tuple(here))) if here else gpus_of(chosen, say)
        each = -(-min(len(specs), most or len(specs)) // int(sum(node.gpus for of in chosen.values() for node in of)))
        for kind, answer in found.items():
            by_cores = most_on_a_gpu(chosen[kind], resources.cpus)
            packed[kind] = Packed(answer.found, max(1, min(by_cores, each)))
    if gpus == "packed" and not packed and kinds_of(nodes, gpus=True):
        raise ConfigError("resources.gpus: packed: torch can use no GPU of the cluster. Use auto or 0.", exit_code=3)
    if not packed:
        whole = Share(resources.cpus, 0.0 if gpus == "auto" else 1.0)
        kinds = chosen_kinds(nodes, resources.device, gpus=whole.gpus > 0) or ("gpu",)
        return checked(
            Slots(dict.fromkeys(kinds, whole), cluster.nodes, concurrency=concurrency), cluster, may_grow=False
        )
    if read is None:
        from orchestrator.forecast.gpu_memory import inputs_of

        read = inputs_of
    slots = PackedSlots(packed, resources.cpus, cluster.nodes, specs, read, concurrency=concurrency, say=say)
    return checked(slots, cluster, may_grow=concurrency is not None)


def gpus_of(chosen: Mapping[str, Sequence[Node]], say: Say) -> dict[str, CudaGpus]:
    """The GPUs of each kind on which torch can compute, as a process on each node says; no kind that has none.

    Where no GPU of a kind becomes free in time, or torch is not imported in time, it is assumed to work, with one trial
    on each.
    """
    answers = asked_nodes(list(chosen), say)
    usable = {}
    for kind, found in answers.items():
        gpus = tuple(gpu for answer in found if answer is not None for gpu in answer.found)
        whys = dict.fromkeys(why for answer in found if answer is not None for why in (answer.why_none, *answer.notes))
        for why in filter(None, whys):
            say(f"note    {kind}: {why}")
        if silent := sum(answer is None or answer.silent for answer in found):
            say(f"note    {kind}: {counted(silent, 'node')} did not say in time what GPUs are free there")
        if gpus or silent:
            usable[kind] = CudaGpus(gpus)
    return usable


def asked_nodes(kinds: Sequence[str], say: Say) -> dict[str, list[CudaGpus | None]]:
    """What a process on each node with GPUs of these kinds says of one of them; None where it does not answer."""
    import ray

    asked = dict(_asked(kinds))
    ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=SAY_S) if asked else ([], [])
    if late:
        say(f"note    waiting for a part of a GPU on {counted(len(late), 'node')}, {ANSWER_S:.0f} s at most")
        more, late = ray.wait(late, num_returns=len(late), timeout=ANSWER_S - SAY_S)
        ready += more
    answers: dict[str, list[CudaGpus | None]] = {kind: [] for kind in kinds}
    for one in ready:
        try:
            answers[asked[one]].append(ray.get(one))
        except ray.exceptions.RayError as error:  # its node is gone, or has none of our packages
            answers[asked[one]].append(CudaGpus(why_none=reason(error)))
    for one in late:
        ray.cancel(one, force=True)
        answers[asked[one]].append(None)
    return answers


def gpus_there() -> CudaGpus:
    """What torch says in this process, on a node that is asked; `silent` where it is not imported in time."""
    try:
        return listed_gpus()
    except MissingError as error:
        return CudaGpus(why_none=str(error), silent=isinstance(error, SilentError))


def _asked(kinds: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """A pending answer of each node, with its kind."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # So little that another sweep that packs trials on the GPU is hardly in the way.
    @ray.remote(num_cpus=0, num_gpus=CRUMB, max_calls=1)  # type: ignore[untyped-decorator]  # its process ends with it
    def ask() -> CudaGpus:
        return gpus_there()

    for node in ray.nodes():
        kind = node_of(node["Resources"]).kind
        if node["Alive"] and kind in kinds and node["Resources"].get("GPU"):
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            yield ask.options(scheduling_strategy=there).remote(), kind

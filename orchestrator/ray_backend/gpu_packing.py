"""The share of a node that a trial gets, by kind of node; where trials share a GPU, by what memory they take.

The first trial runs alone. What its process has held of the GPU at its first evaluation says how many share one from
then on, and one that holds more lowers that. Where memory runs out all the same, the trial runs again with half as many
on its GPU, and so do all that follow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.config.quantities import counted, size
from orchestrator.execution.slots import Node, Share, Slots, chosen_kinds, kinds_of
from orchestrator.ray_backend.cluster import Cluster, checked, node_of
from orchestrator.sweeps.trial_resources import Resources
from trials.errors import ConfigError, MissingError, reason
from trials.hardware.machine import CudaGpus, Gpu, SilentError, listed_gpus
from trials.spec import TrialSpec

SAY_S, ANSWER_S = 20.0, 120.0  # for nodes to say what GPUs they have: one has to be free, and torch to be imported
CRUMB = 0.0001  # of a GPU, the least that Ray counts
CONTEXT_BYTES = 512 << 20  # of the device, for the CUDA of each process: its context, kernels and libraries
HOST_BYTES = 2 << 30  # of the host, for each process: torch, CUDA, a corpus
RESERVE = 0.04  # of a device, for what nobody counts

Say = Callable[[str], None]


@dataclass
class Packed:
    """The trials that share GPUs of one kind.

    Attributes:
        gpus: What is known of each, at least of one on each node; empty where no node answered.
        now: How many may share one: first as many as cores, host memory and the number of trials allow.
    """

    gpus: Sequence[Gpu]
    now: int


class PackedSlots(Slots):
    """Slots of trials that share GPUs: see above."""

    def __init__(
        self,
        packed: Mapping[str, Packed],
        cpus: int,
        nodes: Callable[[], Sequence[Node]],
        *,
        concurrency: int | None = None,
        say: Say = lambda line: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._packed, self._cpus, self._say = dict(packed), cpus, say
        self._held = 0  # the most bytes that a process was measured to hold; 0 before any was
        self._with: dict[str, int] = {}  # trial -> how many were to share its GPU when it started
        super().__init__({}, nodes, concurrency=concurrency, clock=clock)
        for kind, each in self._packed.items():
            self._share_among(each.now, kind)

    @property
    def _is_first(self) -> bool:
        """Whether the next trial is to run alone."""
        return not self._held and any(packed.now > 1 for packed in self._packed.values())

    def described(self) -> str:
        """For display; how many share a GPU is not known before the first trial has run."""
        return f"one trial alone, then at most {super().described()}" if self._is_first else super().described()

    def free_kind(self) -> str | None:
        """As of `Slots`; nothing beside the first trial until it is measured."""
        return None if self._is_first and self._taken else super().free_kind()

    def on_one_node(self, kind: str) -> int:
        """As of `Slots`; the first trial is alone."""
        return 1 if self._is_first else super().on_one_node(kind)

    def take(self, trial_id: str, kind: str) -> Share:
        """Assign a slot to a trial."""
        self._with[trial_id] = self._packed[kind].now
        return super().take(trial_id, kind)

    def give_back(self, trial_id: str) -> None:
        """Free the slot of a trial, if it has one."""
        self._with.pop(trial_id, None)
        super().give_back(trial_id)

    def measured(self, held_bytes: int) -> None:
        """Let as many trials share a GPU as fit, by the trial that held most."""
        if held_bytes <= self._held:
            return
        was_first, self._held = self._is_first, held_bytes
        for kind, packed in self._packed.items():
            if (n := max(1, min(fitting(packed.gpus, held_bytes), packed.now))) < packed.now or was_first:
                self._share_among(n, kind)
                self._say(f"note    a trial took {size(held_bytes)} of its GPU: {self._words(kind)} from now on")
        if was_first:
            self._with = {trial_id: self._packed[self._taken[trial_id]].now for trial_id in self._with}

    def relieved(self, trial_id: str) -> bool:
        """Whether a trial whose memory ran out shared its GPU; then half as many share one from now on."""
        kind = self._taken.get(trial_id)
        if kind is None:
            return False
        now, beside = self._packed[kind].now, sum(other == kind for other in self._taken.values())
        if beside < 2 or self._with[trial_id] < 2:
            return False
        if self._with[trial_id] == now:  # else fewer share one already since it started
            self._share_among(max(1, min(now - 1, (min(beside, now) + 1) // 2)), kind)
            self._say(f"note    memory ran out with {counted(beside, 'trial')}: {self._words(kind)} from now on")
        return True

    def _share_among(self, n: int, kind: str) -> None:
        self._packed[kind].now = n
        self.shares[kind] = Share(self._cpus, share_of(n))
        self._refreshed_s = float("-inf")

    def _words(self, kind: str) -> str:
        return f"{counted(self._packed[kind].now, 'trial')} on {f'each {kind}' if kind != 'gpu' else 'a GPU'}"


def fitting(gpus: Sequence[Gpu], held_bytes: float) -> int:
    """How many trials that hold so much fit on the smallest of some GPUs, beside other programs; 0 if none."""
    free = [(gpu.n_bytes if gpu.free_bytes is None else gpu.free_bytes) - RESERVE * gpu.n_bytes for gpu in gpus]
    return max(0, int(min(free, default=0.0) // (CONTEXT_BYTES + held_bytes)))


def most_on_a_gpu(nodes: Sequence[Node], cpus: int) -> int:
    """How many trials of so many cores the nodes can feed on each of their GPUs, on the node that can feed most."""
    by_host = (min(node.cpus // cpus, node.memory_bytes / HOST_BYTES) / node.gpus for node in nodes)
    return max(1, int(max(by_host, default=1)))


def share_of(n: int) -> float:
    """The fraction of a GPU that each of `n` trials requests; Ray counts in ten-thousandths."""
    return math.floor(10_000 / n) / 10_000


def slots_for(
    cluster: Cluster,
    resources: Resources,
    specs: Sequence[TrialSpec],
    *,
    concurrency: int | None = None,
    here: Sequence[Gpu] = (),
    most: int | None = None,
    say: Say = lambda line: None,
) -> Slots:
    """The slots for trials on a cluster.

    With `auto` trials run on GPUs only, if any node has one on which CUDA works now, else on cores.

    Args:
        specs: The trials that may run.
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
            packed[kind] = Packed(answer.found, max(1, min(by_cores, each)) if answer.found else 1)
    if gpus == "packed" and not packed and kinds_of(nodes, gpus=True):
        raise ConfigError("resources.gpus: packed: torch can use no GPU of the cluster. Use auto or 0.", exit_code=3)
    if not packed:
        whole = Share(resources.cpus, 0.0 if gpus == "auto" else 1.0)
        kinds = chosen_kinds(nodes, resources.device, gpus=whole.gpus > 0) or ("gpu",)
        return checked(
            Slots(dict.fromkeys(kinds, whole), cluster.nodes, concurrency=concurrency), cluster, may_grow=False
        )
    slots = PackedSlots(packed, resources.cpus, cluster.nodes, concurrency=concurrency, say=say)
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

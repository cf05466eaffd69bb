"""Slots for trials: where the next trial runs, and how many more the nodes of each kind have room for.

Nodes come and go while a sweep runs: a spot machine is reclaimed, an autoscaler adds one. So they are counted
repeatedly, and a trial is only handed to Tune when there is room for it, or when `concurrency` asks for more than there
is room, which makes an autoscaler add nodes.

Where trials share a GPU, the first trial runs alone. What its process has held of the GPU at its first evaluation says
how many share one from then on, and one that holds more lowers that. Their workers start a few at a time, as each
imports torch. Where memory runs out all the same, the trial runs again with half as many on its GPU, and so do all that
follow.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.cells import group_by
from orchestrator.config.limits import Resources
from orchestrator.config.quantities import amount, gpus_in_words, size
from trials.errors import ConfigError, MissingError, reason
from trials.hardware.machine import CudaGpus, Gpu, SilentError, listed_gpus
from trials.spec import TrialSpec

REFRESH_S = 2.0
ANY = ""  # the kind of a trial that may run on any node
SAY_S, ANSWER_S = 20.0, 120.0  # for nodes to say what GPUs they have: one has to be free, and torch to be imported
CRUMB = 0.0001  # the smallest share of a GPU that Ray counts
CONTEXT_BYTES = 512 << 20  # device memory for CUDA in each process: its context, kernels and libraries
HOST_BYTES = 2 << 30  # host memory for each process: torch, CUDA, a corpus
RESERVE, MOST_RESERVED = 0.04, 10**9  # of a device, and bytes of it, for what nobody counts
_ACCELERATOR = "accelerator_type:"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Share:
    """The part of a node that one trial gets.

    Attributes:
        cpus: Cores, and threads for its arithmetic.
        gpus: Number of GPUs; a fraction is a share of one.
    """

    cpus: int = 1
    gpus: float = 0.0


@dataclass(frozen=True)
class Node:
    """A node's total resources.

    Attributes:
        kind: Its accelerator as Ray names it, e.g. ``A100``; ``cpu`` if it has none.
        cpus, gpus: Their numbers.
        memory_bytes: Host memory for its processes; infinite where unknown.
    """

    kind: str
    cpus: float
    gpus: float
    memory_bytes: float = math.inf

    def room(self, share: Share) -> int:
        """The number of trials that fit on it; no trial spans two nodes, or two GPUs."""
        by_cpus = int(self.cpus // share.cpus)
        return min(by_cpus, int(1 / share.gpus + 1e-9) * int(self.gpus)) if share.gpus else by_cpus

    def idle_gpus(self, share: Share) -> int:
        """The number of GPUs that get no trial because the node has too few cores for one on each."""
        return max(0, int(self.gpus) - int(self.cpus // share.cpus)) if share.gpus else 0


def node_of(resources: dict[str, float]) -> Node:
    """The node with the resources that Ray reports."""
    kinds = sorted(name.removeprefix(_ACCELERATOR) for name in resources if name.startswith(_ACCELERATOR))
    gpus = resources.get("GPU", 0.0)
    kind = kinds[0] if kinds else "gpu" if gpus else "cpu"
    return Node(kind, resources.get("CPU", 0.0), gpus, resources.get("memory", math.inf))


def resources_of(kind: str, share: Share) -> dict[str, float]:
    """The resources that a trial requests from Ray; a fraction of an accelerator pins it to nodes of its kind."""
    pinned = {f"{_ACCELERATOR}{kind}": 0.001} if kind not in ("", "cpu", "gpu") else {}
    return {"CPU": share.cpus, "GPU": share.gpus, **pinned}


def kinds_of(nodes: Sequence[Node], *, gpus: bool) -> dict[str, list[Node]]:
    """The nodes of each kind; for trials on GPUs only those that have one."""
    return dict(sorted(group_by((node for node in nodes if node.gpus or not gpus), lambda node: node.kind).items()))


def chosen_kinds(nodes: Sequence[Node], device: str, *, gpus: bool) -> tuple[str, ...]:
    """The kinds of node that trials run on. Raises ConfigError.

    Args:
        device: ``any``; ``one`` for the kind with the most capacity; or a kind.
    """
    by_kind = kinds_of(nodes, gpus=gpus)
    if device == "any":
        return tuple(by_kind) if gpus else (ANY,)
    if device == "one":
        most = {kind: sum(node.gpus if gpus else node.cpus for node in members) for kind, members in by_kind.items()}
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
        shares: The share that a trial gets on each kind of node.
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
        rest = f"; {amount(idle, 'node')} without a GPU {'get' if idle > 1 else 'gets'} none" if idle else ""
        shares = [(node, self.shares.get(node.kind)) for node in self._nodes()]
        unused = sum(node.idle_gpus(share) for node, share in shares if share is not None)
        rest += f"; {amount(unused, 'GPU')} idle for lack of cores: lower resources.cpus" if unused else ""
        return f"{amount(self.total(), 'trial')} at a time" + ("".join(gpu_parts) or "".join(named.values())) + rest

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

    def started(self, trial_id: str) -> None:
        """The worker of a trial is ready."""

    def measured(self, held_bytes: int) -> None:
        """Note how much memory of its GPU the process of a running trial has held, once the trial was evaluated."""

    def relieved(self, trial_id: str) -> bool:
        """Whether a trial that ran out of memory will have fewer beside it when it runs again."""
        return False

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


def checked(slots: Slots, nodes: Sequence[Node], *, may_grow: bool) -> Slots:
    """The slots. Raises ConfigError if a trial needs more than any node has, and no node will be added."""
    if slots.total() < 1 and not may_grow:
        share = next(iter(slots.shares.values()))
        most_cpus, most_gpus = max((n.cpus for n in nodes), default=0), max((n.gpus for n in nodes), default=0)
        raise ConfigError(
            f"resources: a trial needs {amount(share.cpus, 'CPU')} and {share.gpus:g} GPUs, but the largest node of "
            f"the cluster has {most_cpus:g} and {most_gpus:g}. Lower resources.cpus or resources.gpus.",
            exit_code=3,
        )
    return slots


@dataclass
class Packed:
    """The trials that share GPUs of one kind.

    Attributes:
        gpus: What is known about the GPUs, at least about one on each node; empty if no node answered.
        now: How many trials may share a GPU: at first as many as cores, host memory and the number of trials allow.
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
        self._starting = set[str]()  # trials whose worker imports torch
        self._with: dict[str, int] = {}  # trial -> how many were to share its GPU when it started
        super().__init__({}, nodes, concurrency=concurrency, clock=clock)
        for kind, each in self._packed.items():
            self._share_among(each.now, kind)

    @property
    def _is_first(self) -> bool:
        """Whether the next trial is to run alone."""
        return not self._held and any(packed.now > 1 for packed in self._packed.values())

    def described(self) -> str:
        """A line for display; how many trials share a GPU is unknown before the first one has run."""
        return f"one trial alone, then at most {super().described()}" if self._is_first else super().described()

    def free_kind(self) -> str | None:
        """As `Slots` has it, but the first trial runs alone until it is measured; then few workers start at a time."""
        if self._is_first and self._taken:
            return None
        waits = len(self._starting) >= max(2, int(sum(node.cpus for node in self._nodes())) // 4)
        return None if waits and self._concurrency is None else super().free_kind()

    def on_one_node(self, kind: str) -> int:
        """As `Slots` has it, but the first trial runs alone."""
        return 1 if self._is_first else super().on_one_node(kind)

    def take(self, trial_id: str, kind: str) -> Share:
        """Assign a slot to a trial."""
        self._with[trial_id] = self._packed[kind].now
        self._starting.add(trial_id)
        return super().take(trial_id, kind)

    def give_back(self, trial_id: str) -> None:
        """Free the slot of a trial, if it has one."""
        self._with.pop(trial_id, None)
        self._starting.discard(trial_id)
        super().give_back(trial_id)

    def started(self, trial_id: str) -> None:
        """The worker of a trial is ready, so that another one may start."""
        self._starting.discard(trial_id)

    def measured(self, held_bytes: int) -> None:
        """Let as many trials share a GPU as fit, by the trial that held most."""
        if held_bytes <= self._held:
            return
        was_first, self._held = self._is_first, held_bytes
        for kind, packed in self._packed.items():
            if (n := max(1, min(fitting(packed.gpus, held_bytes), packed.now))) < packed.now or was_first:
                self._share_among(n, kind)
                reserved = size(max(map(reserve, packed.gpus), default=0.0))
                held = f"a trial took {size(held_bytes)} of its GPU, {reserved} stay in reserve"
                self._say(f"note    {held}: {self._words(kind)} from now on")
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
            self._say(f"note    memory ran out with {amount(beside, 'trial')}: {self._words(kind)} from now on")
        return True

    def _share_among(self, n: int, kind: str) -> None:
        self._packed[kind].now = n
        self.shares[kind] = Share(self._cpus, share_of(n))
        self._refreshed_s = float("-inf")

    def _words(self, kind: str) -> str:
        return f"{amount(self._packed[kind].now, 'trial')} on {f'each {kind}' if kind != 'gpu' else 'a GPU'}"


def reserve(gpu: Gpu) -> float:
    """Bytes of a GPU's memory that are kept free of trials."""
    return min(RESERVE * gpu.n_bytes, MOST_RESERVED)


def fitting(gpus: Sequence[Gpu], held_bytes: float) -> int:
    """How many trials that hold this much memory fit on the smallest of some GPUs, beside other programs; 0 if none."""
    free = [(gpu.n_bytes if gpu.free_bytes is None else gpu.free_bytes) - reserve(gpu) for gpu in gpus]
    return max(0, int(min(free, default=0.0) // (CONTEXT_BYTES + held_bytes)))


def most_on_a_gpu(nodes: Sequence[Node], cpus: int) -> int:
    """How many trials with this many cores fit on each GPU, on the node whose cores can feed most of them."""
    by_host = (min(node.cpus // cpus, node.memory_bytes / HOST_BYTES) / node.gpus for node in nodes)
    return max(1, int(max(by_host, default=1)))


def share_of(n: int) -> float:
    """The fraction of a GPU that each of `n` trials requests; Ray counts in ten-thousandths."""
    return math.floor(10_000 / n) / 10_000


def slots_for(
    nodes_up: Callable[[], Sequence[Node]],
    resources: Resources,
    specs: Sequence[TrialSpec],
    *,
    concurrency: int | None = None,
    here: Sequence[Gpu] = (),
    most: int | None = None,
    say: Say = lambda line: None,
) -> Slots:
    """The slots for trials on the nodes that are up.

    With `auto` trials run on GPUs only, if any node has one on which CUDA works now, else on cores.

    Args:
        specs: The trials that may run.
        here: The GPUs of this machine, if it is all of the cluster; else the nodes are asked.
        most: The most trials that will run.

    Raises:
        ConfigError: no node has what a trial needs, or there is no GPU to pack trials on.
    """
    nodes, gpus = nodes_up(), resources.gpus
    if isinstance(gpus, float):
        # While no node has a GPU, trials wait for whatever kind an autoscaler adds.
        kinds = chosen_kinds(nodes, resources.device, gpus=gpus > 0) or ("gpu",)
        slots = Slots(dict.fromkeys(kinds, Share(resources.cpus, gpus)), nodes_up, concurrency=concurrency)
        return checked(slots, nodes, may_grow=concurrency is not None)
    packed = dict[str, Packed]()
    if resources.device != "cpu" and (by_kind := kinds_of(nodes, gpus=True)):
        chosen = {kind: by_kind[kind] for kind in chosen_kinds(nodes, resources.device, gpus=True)}
        found = dict.fromkeys(chosen, CudaGpus(tuple(here))) if here else gpus_of(chosen, say)
        gpus_up = int(sum(node.gpus for pool in chosen.values() for node in pool))
        each = -(-min(len(specs), most or len(specs)) // gpus_up)
        for kind, answer in found.items():
            by_cores = most_on_a_gpu(chosen[kind], resources.cpus)
            packed[kind] = Packed(answer.found, max(1, min(by_cores, each)) if answer.found else 1)
    if gpus == "packed" and not packed and kinds_of(nodes, gpus=True):
        raise ConfigError("resources.gpus: packed: torch can use no GPU of the cluster. Use auto or 0.", exit_code=3)
    if not packed:
        whole = Share(resources.cpus, 0.0 if gpus == "auto" else 1.0)
        kinds = chosen_kinds(nodes, resources.device, gpus=whole.gpus > 0) or ("gpu",)
        slots = Slots(dict.fromkeys(kinds, whole), nodes_up, concurrency=concurrency)
        return checked(slots, nodes, may_grow=concurrency is not None and gpus == "auto")
    slots = PackedSlots(packed, resources.cpus, nodes_up, concurrency=concurrency, say=say)
    return checked(slots, nodes, may_grow=concurrency is not None)


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
            say(f"note    {kind}: {amount(silent, 'node')} did not say in time what GPUs are free there")
        if gpus or silent:
            usable[kind] = CudaGpus(gpus)
    return usable


def asked_nodes(kinds: Sequence[str], say: Say) -> dict[str, list[CudaGpus | None]]:
    """What a process on each node with GPUs of these kinds says of one of them; None where it does not answer."""
    import ray

    kind_of = dict(_asked(kinds))
    ready, late = ray.wait(list(kind_of), num_returns=len(kind_of), timeout=SAY_S) if kind_of else ([], [])
    if late:
        say(f"note    waiting for a part of a GPU on {amount(len(late), 'node')}, {ANSWER_S:.0f} s at most")
        more, late = ray.wait(late, num_returns=len(late), timeout=ANSWER_S - SAY_S)
        ready += more
    answers: dict[str, list[CudaGpus | None]] = {kind: [] for kind in kinds}
    for one in ready:
        try:
            answers[kind_of[one]].append(ray.get(one))
        except ray.exceptions.RayError as error:  # its node is gone, or has none of our packages
            answers[kind_of[one]].append(CudaGpus(why_none=reason(error)))
    for one in late:
        ray.cancel(one, force=True)
        answers[kind_of[one]].append(None)
    return answers


def gpus_there() -> CudaGpus:
    """The GPUs that torch finds in this process, on a node that is asked; `silent` if its import takes too long."""
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

"""Slots for trials: where the next trial runs, and how many more the nodes of each kind have room for.

Nodes come and go while a sweep runs: a spot machine is reclaimed, an autoscaler adds one. So they are counted
repeatedly, and a trial is only handed to Tune when there is room for it, or when `concurrency` asks for more than there
is room, which makes an autoscaler add nodes.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis.cells import grouped
from orchestrator.config.quantities import counted, gpus_in_words
from trials.errors import ConfigError

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
        """Its GPUs that get no trial, as it has too few cores for one on each."""
        return max(0, int(self.gpus) - int(self.cpus // share.cpus)) if share.gpus else 0


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
        self._n_nodes = Counter[str]()
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
        shares = [(node, self.shares.get(node.kind)) for node in self._nodes()]
        unused = sum(node.idle_gpus(share) for node, share in shares if share is not None)
        rest += f"; {counted(unused, 'GPU')} idle for want of cores: lower resources.cpus" if unused else ""
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

    def measured(self, held_bytes: int) -> None:
        """A running trial was evaluated, whose process has held so much of its GPU."""

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
        self._n_nodes = Counter(node.kind for node in nodes)
        self._room = {kind: sum(of_nodes) for kind, of_nodes in rooms.items()}
        self._most = {kind: max(of_nodes, default=0) for kind, of_nodes in rooms.items()}

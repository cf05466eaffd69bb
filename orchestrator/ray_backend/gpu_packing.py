"""The share of a node that a trial gets, by kind of node.

If trials are packed, a GPU is shared by as many as fit according to the memory that short pilots of the largest trials
used on a GPU of that kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orchestrator.execution.slots import Node, Share, Slots, chosen_kinds, kinds_of
from orchestrator.ray_backend.cluster import Cluster, checked, resources_of
from orchestrator.sweeps.sweep import Resources
from trials.prefix.rule import prefix_depth
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from trials.run import Footprint

FREE_S = 60.0  # for a GPU to become free, and torch to be imported
USABLE = 0.92  # share of a device's memory; fragmentation and cuBLAS workspaces take the rest


def measured_footprint(specs: Sequence[TrialSpec], kind: str) -> Footprint:
    """The largest memory footprint of the trials, measured on a GPU of this kind by a process with exclusive use of it.

    Raises:
        ray.exceptions.RayTaskError: a pilot failed, as its trial would.
    """
    import ray

    @ray.remote(num_gpus=1, resources=_pinned(kind), max_calls=1)  # type: ignore[untyped-decorator]  # its process ends with it and frees the memory
    def pilots(chosen: list[str]) -> list[Footprint]:
        from trials.hardware.device import device_for
        from trials.run import footprint

        return [footprint(TrialSpec.model_validate_json(text), device_for(1.0)) for text in chosen]

    chosen = [spec.model_dump_json() for spec in largest_trials(specs)]
    footprints: list[Footprint] = ray.get(pilots.remote(chosen))
    return max(footprints, key=lambda footprint: footprint.used_bytes)


def slots_for(
    cluster: Cluster, resources: Resources, specs: Sequence[TrialSpec], *, concurrency: int | None = None
) -> Slots:
    """The slots for trials on a cluster; if trials are packed, pilots run first on each kind of GPU.

    With `auto` trials run on GPUs only, if any node has one on which CUDA works now, else on cores.

    Raises:
        ConfigError: no node has what a trial needs, or there is no GPU to pack trials on.
    """
    nodes = cluster.nodes()
    packed, gpus = resources.gpus == "packed", resources.gpus
    if gpus == "auto":
        gpus = 1.0 if _has_gpus(nodes, resources) else 0.0
    whole = Share(resources.cpus, 1.0 if isinstance(gpus, str) else gpus)
    kinds = chosen_kinds(nodes, resources.device, gpus=whole.gpus > 0)
    # While no node has a GPU, trials wait for whatever kind an autoscaler adds.
    slots = Slots(dict.fromkeys(kinds or ("gpu",), whole), cluster.nodes, concurrency=concurrency)
    checked(slots, cluster, may_grow=concurrency is not None and not packed)
    if not packed:
        return slots
    shares = {}
    for kind, of_kind in kinds_of(nodes, gpus=True).items():
        if kind in kinds:
            most = max(int(node.cpus / node.gpus // resources.cpus) for node in of_kind)
            shares[kind] = Share(resources.cpus, share_of_gpu(measured_footprint(specs, kind), most))
    return Slots(shares, cluster.nodes, concurrency=concurrency)


def _pinned(kind: str) -> dict[str, float]:
    """The resources that send a task to nodes of a kind."""
    wanted = resources_of(kind, Share(1, 1.0))
    return {name: amount for name, amount in wanted.items() if name not in ("CPU", "GPU")}


def _has_gpus(nodes: Sequence[Node], resources: Resources) -> bool:
    """Whether there are GPUs for trials, of the kind that they ask for, and torch can use them on each kind of node."""
    if resources.device == "cpu" or not kinds_of(nodes, gpus=True):
        return False
    return all(works_on(kind) for kind in chosen_kinds(nodes, resources.device, gpus=True))


def works_on(kind: str) -> bool:
    """Whether torch can use a GPU of this kind; where all of them are taken, it is assumed to."""
    import ray

    @ray.remote(num_cpus=0, num_gpus=1, resources=_pinned(kind), max_calls=1)  # type: ignore[untyped-decorator]
    def works() -> bool:
        import torch

        return torch.cuda.is_available()

    asked = works.remote()
    try:
        return bool(ray.get(asked, timeout=FREE_S))
    except ray.exceptions.GetTimeoutError:
        ray.cancel(asked, force=True)
        return True


def largest_trials(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """For each combination of settings that affect memory, the trial that trains the most layers."""
    largest: dict[tuple[object, ...], TrialSpec] = {}
    for spec in sorted(specs, key=lambda spec: (len(spec.always_frozen.layers), prefix_depth(spec)), reverse=True):
        rest = spec.model_dump_json(include={"optim", "lora"})
        largest[(spec.task, spec.data, spec.model.revision, spec.max_length, spec.precision, rest)] = spec
    return list(largest.values())


def share_of_gpu(footprint: Footprint, most: int) -> float:
    """The fraction of a GPU that a trial requests, so that at most `most` trials share one; 1 if no two fit."""
    fitting = int(USABLE * footprint.total_bytes // footprint.used_bytes)
    trials = max(1, min(fitting, most))
    return math.floor(10_000 / trials) / 10_000  # Ray counts in ten-thousandths

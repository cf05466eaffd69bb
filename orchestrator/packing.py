"""How many trials share a GPU: as many as fit by the memory that a short pilot of the hungriest ones really took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orchestrator.cluster import Cluster, Share
from orchestrator.sweep import Resources
from trials.prefix.rule import prefix_depth
from trials.spec import TrialSpec

if TYPE_CHECKING:
    from trials.pilot import Footprint

USABLE = 0.92  # of a device's memory; fragments and cuBLAS's workspaces take some


def measured_footprint(specs: Sequence[TrialSpec]) -> Footprint:
    """The largest footprint among the trials, measured on a GPU of the cluster by a process that has it to itself.

    Raises:
        ray.exceptions.RayTaskError: a pilot fails, as its trial would.
    """
    import ray

    @ray.remote(num_gpus=1, max_calls=1)  # type: ignore[untyped-decorator]  # its process ends with it, and gives the memory back
    def pilots(chosen: list[str]) -> list[Footprint]:
        from trials.pilot import footprint

        return [footprint(TrialSpec.model_validate_json(text)) for text in chosen]

    chosen = [spec.model_dump_json() for spec in hungriest(specs)]
    found: list[Footprint] = ray.get(pilots.remote(chosen))
    return max(found, key=lambda one: one.used_bytes)


def share_of(cluster: Cluster, resources: Resources, specs: Sequence[TrialSpec]) -> Share:
    """What each trial gets; where trials are packed, a pilot is run first.

    Raises:
        ConfigError: the cluster has no GPU to pack them on.
    """
    if resources.gpus != "packed":
        return Share(resources.cpus, resources.gpus)
    whole = Share(resources.cpus, 1.0)
    cluster.slots(whole)
    most = int(cluster.cpus / cluster.gpus // resources.cpus)
    return Share(resources.cpus, share_of_gpu(measured_footprint(specs), most))


def hungriest(specs: Iterable[TrialSpec]) -> list[TrialSpec]:
    """One trial for everything that memory depends on: that which learns the most layers."""
    found: dict[tuple[object, ...], TrialSpec] = {}
    for spec in sorted(specs, key=lambda spec: (len(spec.always_frozen.layers), prefix_depth(spec)), reverse=True):
        rest = spec.model_dump_json(include={"optim", "lora"})
        found[(spec.task, spec.data, spec.model.revision, spec.max_length, spec.precision, rest)] = spec
    return list(found.values())


def share_of_gpu(footprint: Footprint, most: int) -> float:
    """The fraction of a GPU that a trial asks for, so that at most `most` trials share one; 1 where no two fit."""
    fitting = int(USABLE * footprint.total_bytes // footprint.used_bytes)
    trials = max(1, min(fitting, most))
    return math.floor(10_000 / trials) / 10_000  # Ray counts in ten-thousandths

"""What a launch uses of this machine, and the trials that there is room for: `--cluster local` and `inline`.

`resources.gpus: auto` becomes a number here. For `--cluster auto` that is decided by the cluster's nodes, when Ray is
connected (`orchestrator.ray_backend.gpu_packing`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from orchestrator.config.quantities import counted, gpus_in_words
from trials.errors import ConfigError
from trials.hardware.cpu_name import processor_name
from trials.hardware.machine import Gpu, cuda_gpus, usable_cores

if TYPE_CHECKING:
    from orchestrator.sweeps.cluster_spec import ClusterSpec
    from orchestrator.sweeps.sweep import Resources, SweepSpec


def settled(cluster: ClusterSpec, sweep: SweepSpec, *, pilot: bool = False) -> SweepSpec:
    """The sweep with the settings of its cluster, and on this machine with the number of GPUs that a trial gets.

    Args:
        pilot: Whether pilots measure trials, so that `auto` packs as many on a GPU as fit by their memory.

    Raises:
        ConfigError: `--gpus` asks for more than there are.
    """
    sweep = cluster.over(sweep)
    if not cluster.is_here:
        return sweep
    asked, changes = sweep.resources, dict[str, object]()
    if cluster.gpus == 0:
        changes["gpus"] = 0.0
    elif asked.gpus == "auto":
        works = asked.device != "cpu" and bool(gpus_here(cluster))
        changes["gpus"] = ("packed" if pilot and cluster.address == "local" else 1.0) if works else 0.0
    if cluster.address == "inline":  # its rows say how many threads it had
        changes["cpus"] = min(asked.cpus, cores_here(cluster))
    return sweep.model_copy(update={"resources": asked.model_copy(update=changes)})


def cores_here(cluster: ClusterSpec) -> int:
    """Cores that a launch uses: all that this process may, or `--cpus`."""
    return cluster.cpus or usable_cores()


def gpus_here(cluster: ClusterSpec) -> tuple[Gpu, ...]:
    """GPUs that a launch uses: all that CUDA gives this process, or the first `--gpus`. Raises ConfigError."""
    if cluster.gpus == 0:
        return ()
    gpus = cuda_gpus()
    if cluster.gpus is not None and cluster.gpus > len(gpus.found):
        why = f" ({gpus.why_none})" if gpus.why_none else ""
        raise ConfigError(
            f"--gpus {cluster.gpus}: this machine has {counted(len(gpus.found), 'GPU')} that CUDA can use{why}.",
            exit_code=3,
        )
    return gpus.found[: cluster.gpus]


def slots_of(cluster: ClusterSpec, resources: Resources, share: float) -> int:
    """Trials that run at the same time: one inline, else as many as cores, GPUs or `concurrency` allow.

    Args:
        share: GPUs of a trial; a fraction if it shares one.
    """
    if cluster.address == "inline":
        return 1
    room = max(1, cores_here(cluster) // resources.cpus)
    if share:
        room = min(room, max(1, int(len(gpus_here(cluster)) / share + 1e-9)))
    if cluster.concurrency is None:
        return room
    return cluster.concurrency if cluster.address == "auto" else min(room, cluster.concurrency)


def device_line(cluster: ClusterSpec, resources: Resources) -> str:
    """What the trials of a launch run on, and how many at a time: `1 NVIDIA H100: one trial at a time on it`.

    Args:
        resources: Of a sweep that is `settled`.
    """
    if not cluster.is_here:
        return _of_cluster(resources)
    if why := _lacking(cluster, resources):
        return f"{why}; a launch here is refused"
    if resources.gpus == 0:
        return _on_cores(cluster, resources)
    gpus = gpus_here(cluster)
    names = ", ".join(f"{n} {name}" for name, n in Counter(gpu.name for gpu in gpus).items())
    if cluster.address == "inline":
        return f"{names}: one trial at a time" + (", on the first" if len(gpus) > 1 else " on it")
    if resources.gpus == "packed":
        return f"{names}: as many trials at a time on each as fit by the memory that pilots measure at the launch"
    assert not isinstance(resources.gpus, str)
    n = slots_of(cluster, resources, resources.gpus)
    if (resources.gpus, n) == (1, len(gpus)):
        return f"{names}: one trial at a time on {'each' if n > 1 else 'it'}"
    return (
        f"{names}: {counted(n, 'trial')} at a time, {gpus_in_words(resources.gpus)} and {_cores(resources.cpus)} each"
    )


def _on_cores(cluster: ClusterSpec, resources: Resources) -> str:
    n, gpus, mine = slots_of(cluster, resources, 0.0), cuda_gpus(), usable_cores()
    notes = [f"{counted(len(gpus.found), 'GPU')} not used"] if gpus.found else []
    notes += [gpus.why_none] if gpus.why_none else []
    notes += [f"--cpus {cluster.cpus}, but this process may use {mine}"] if (cluster.cpus or 0) > mine else []
    return "; ".join([f"{processor_name()}: {counted(n, 'trial')} at a time, {_cores(resources.cpus)} each", *notes])


def _of_cluster(resources: Resources) -> str:
    if resources.gpus == "auto":
        return "the GPUs of the cluster, one per trial, or its cores if no node has a GPU at the start"
    share = "as many trials on a GPU as fit" if isinstance(resources.gpus, str) else gpus_in_words(resources.gpus)
    return f"the cluster's nodes: {share} and {_cores(resources.cpus)} for each trial"


def check_room_here(cluster: ClusterSpec, resources: Resources) -> None:
    """Raise ConfigError if this machine lacks what a trial needs."""
    if why := _lacking(cluster, resources):
        raise ConfigError(f"{why}. Lower it with --set, or set resources.gpus to auto.", exit_code=3)


def _lacking(cluster: ClusterSpec, resources: Resources) -> str:
    """What a trial needs and this machine lacks; empty if it has room, or is not to run it."""
    if not cluster.is_here:
        return ""
    if (cores := cores_here(cluster)) < resources.cpus:
        return f"resources.cpus: {resources.cpus}: a launch here may use {_cores(cores)}"
    needed = 1.0 if isinstance(resources.gpus, str) else resources.gpus
    found = gpus_here(cluster) if needed else ()
    if len(found) >= needed:
        return ""
    none = cuda_gpus().why_none
    why = f" ({none})" if none and not found else ""
    asked = resources.gpus if isinstance(resources.gpus, str) else f"{resources.gpus:g}"
    return f"resources.gpus: {asked}: this machine has {gpus_in_words(len(found))} that CUDA can use{why}"


def _cores(n: int) -> str:
    return counted(n, "core")

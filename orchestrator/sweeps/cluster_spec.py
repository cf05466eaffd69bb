"""Where a sweep runs, as given by `--cluster`: a word or a file.

address: auto                     # or `local`, `inline`
resources: {cpus: 4, gpus: packed, device: A100}     # override the sweep's
concurrency: 64                   # trials requested at once, so that an autoscaler adds nodes
store: s3://bucket/freezing       # unless --store is given
limits: {lost: 20}                # override the sweep's
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from orchestrator.config.limits import Limits, Resources
from orchestrator.config.quantities import amount, gpus_in_words
from orchestrator.config.yaml_document import Document, faults, first_problems
from orchestrator.sweeps.sweep import SweepSpec
from trials.errors import ConfigError
from trials.hardware.machine import Gpu, cuda_gpus, processor_name, show_gpus, usable_cores
from trials.spec import Frozen, Positive


def cores_here(cluster: ClusterSpec) -> int:
    """Cores that a launch uses: `--cpus`, or else all that this process may use."""
    return cluster.cpus or usable_cores()


def gpus_here(cluster: ClusterSpec) -> tuple[Gpu, ...]:
    """GPUs that a launch uses: the first `--gpus`, or else all that CUDA gives this process. Raises ConfigError."""
    if cluster.gpus == 0:
        return ()
    gpus = cuda_gpus()
    if cluster.gpus is not None and cluster.gpus > len(gpus.found):
        why = f" ({gpus.why_none})" if gpus.why_none else ""
        raise ConfigError(
            f"--gpus {cluster.gpus}: this machine has {amount(len(gpus.found), 'GPU')} that CUDA can use{why}.",
            exit_code=3,
        )
    return gpus.found[: cluster.gpus]


def visible_gpus(cluster: ClusterSpec) -> AbstractContextManager[None]:
    """In the block, processes that a launch starts see the GPUs that torch can use, each MIG instance by itself."""
    return show_gpus(gpus) if (gpus := gpus_here(cluster)) else nullcontext()


def slots_of(cluster: ClusterSpec, resources: Resources, share: float) -> int:
    """Trials that run at the same time: one inline, else as many as cores, GPUs or `concurrency` allow.

    Args:
        share: GPUs of a trial; a fraction if it shares one.
    """
    if cluster.address == "inline":
        return 1
    room = max(1, cores_here(cluster) // resources.cpus)
    if share:
        room = min(room, max(1, int(1 / share + 1e-9) * len(gpus_here(cluster))))  # 1 / (1 / 93) is below 93
    if cluster.concurrency is None:
        return room
    # A cluster may be asked for more trials than it has room for: its autoscaler adds nodes for those that wait.
    return cluster.concurrency if cluster.address == "auto" else min(room, cluster.concurrency)


def device_line(cluster: ClusterSpec, resources: Resources) -> str:
    """What the trials of a launch run on, and how many at a time: `1 NVIDIA H100: one trial at a time on it`.

    Args:
        resources: Of a sweep from `ClusterSpec.fitted_sweep`.
    """
    if not cluster.is_here:
        return _cluster_line(resources)
    if why := _lacking(cluster, resources):
        return f"{why}; a launch here is refused"
    if resources.gpus == 0:
        return _cores_line(cluster, resources)
    gpus = gpus_here(cluster)
    names = ", ".join(f"{n} {name}" for name, n in Counter(gpu.name for gpu in gpus).items())
    notes = "".join(f"; {note}" for note in cuda_gpus().notes)
    if cluster.address == "inline":
        return f"{names}: one trial at a time{', on the first' if len(gpus) > 1 else ' on it'}{notes}"
    each = "each" if len(gpus) > 1 else "it"
    idle = max(0, len(gpus) - cores_here(cluster) // resources.cpus)
    if idle:
        notes = f"; {amount(idle, 'GPU')} idle for lack of cores: lower resources.cpus{notes}"
    if resources.gpus == "packed":
        most = _cores(cores_here(cluster))
        return f"{names}: as many trials at a time on {each} as its memory and {most} allow{notes}"
    assert not isinstance(resources.gpus, str)
    n = slots_of(cluster, resources, resources.gpus)
    if (resources.gpus, n) == (1, len(gpus)):
        return f"{names}: one trial at a time on {each}{notes}"
    share = f"{gpus_in_words(resources.gpus)} and {_cores(resources.cpus)} each"
    return f"{names}: {amount(n, 'trial')} at a time, {share}{notes}"


def _cores_line(cluster: ClusterSpec, resources: Resources) -> str:
    n, gpus, mine = slots_of(cluster, resources, 0.0), cuda_gpus(), usable_cores()
    notes = [f"{amount(len(gpus.found), 'GPU')} not used"] if gpus.found else []
    notes += [gpus.why_none] if gpus.why_none else []
    notes += [f"--cpus {cluster.cpus}, but this process may use {mine}"] if (cluster.cpus or 0) > mine else []
    return "; ".join([f"{processor_name()}: {amount(n, 'trial')} at a time, {_cores(resources.cpus)} each", *notes])


def _cluster_line(resources: Resources) -> str:
    if resources.gpus == "auto":
        return "the GPUs of the cluster, as many trials on each as fit, or its cores if no node has a GPU at the start"
    share = "as many trials on a GPU as fit" if isinstance(resources.gpus, str) else gpus_in_words(resources.gpus)
    return f"the cluster's nodes: {share} and {_cores(resources.cpus)} for each trial"


def _lacking(cluster: ClusterSpec, resources: Resources) -> str:
    """What a trial needs but this machine lacks; empty if it lacks nothing, or trials run elsewhere."""
    if not cluster.is_here:
        return ""
    if (cores := cores_here(cluster)) < resources.cpus:
        return f"resources.cpus: {resources.cpus}: a launch here may use {_cores(cores)}"
    needed = 1.0 if isinstance(resources.gpus, str) else resources.gpus
    gpus = gpus_here(cluster) if needed else ()
    if len(gpus) >= needed:
        return ""
    none = cuda_gpus().why_none
    why = f" ({none})" if none and not gpus else ""
    requested = resources.gpus if isinstance(resources.gpus, str) else f"{resources.gpus:g}"
    return f"resources.gpus: {requested}: this machine has {gpus_in_words(len(gpus))} that CUDA can use{why}"


def _cores(n: int) -> str:
    return amount(n, "core")


WORDS = ("local", "auto", "inline")
SUBMIT = (
    "ray job submit --address http://HEAD:8265 --working-dir . -- permafrost launch --cluster auto --store s3://BUCKET"
)
_FILES = (".yaml", ".yml")


class ClusterSpec(Frozen):
    """Where a sweep runs; not part of a trial's identity.

    Attributes:
        address: ``local`` for a Ray on this machine, ``auto`` for the one that this machine belongs to, ``inline`` for
            none.
        resources: Those given override the sweep's.
        cpus, gpus: Cores and GPUs of this machine that a launch uses, for `local` and `inline`; None for all that this
            process may use. 0 GPUs are hidden from its trials.
        concurrency: Trials requested at the same time, even beyond the available slots; None for as many as there are
            slots, which changes as nodes join and leave.
        store: The results store, unless the command line names one.
        limits: Those given override the sweep's.
    """

    address: str = "local"
    resources: Resources = Resources()
    cpus: Positive | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    concurrency: Positive | None = None
    store: str | None = None
    limits: Limits = Limits()

    @property
    def is_here(self) -> bool:
        """Whether its trials run on this machine alone."""
        return self.address in ("local", "inline")

    @property
    def engine(self) -> str:
        """The name of what runs its trials."""
        return self.address if self.address == "inline" else "ray"

    def overridden_sweep(self, sweep: SweepSpec) -> SweepSpec:
        """The sweep with this cluster's resources and limits."""
        changes = {
            name: getattr(sweep, name).model_copy(update={key: getattr(mine, key) for key in mine.model_fields_set})
            for name in ("resources", "limits")
            if (mine := getattr(self, name)).model_fields_set
        }
        return sweep.model_copy(update=changes)

    def fitted_sweep(self, sweep: SweepSpec) -> SweepSpec:
        """A sweep with the settings of this cluster, and on this machine with the number of GPUs that a trial gets.

        `resources.gpus: auto` becomes `packed` or a number here. For `--cluster auto` the cluster's nodes decide that,
        when Ray is connected (`orchestrator.ray_engine.slots`).

        Raises:
            ConfigError: `--gpus` asks for more than there are, or nobody knows what there is, as torch does not answer.
        """
        sweep = self.overridden_sweep(sweep)
        if not self.is_here:
            return sweep
        resources, changes = sweep.resources, dict[str, object]()
        if self.gpus == 0:
            changes["gpus"] = 0.0
        elif resources.gpus == "auto":
            works = resources.device != "cpu" and bool(gpus_here(self))
            if not works and resources.device != "cpu" and cuda_gpus().silent:
                raise ConfigError(
                    f"resources.gpus: auto: {cuda_gpus().why_none} Run again, or give --gpus 0 to train on the CPU.",
                    exit_code=3,
                )
            # Inline runs one trial at a time, so that nothing shares its GPU.
            changes["gpus"] = ("packed" if self.address == "local" else 1.0) if works else 0.0
        if self.address == "inline":  # its rows say how many threads it had
            changes["cpus"] = min(resources.cpus, cores_here(self))
        return sweep.model_copy(update={"resources": resources.model_copy(update=changes)})

    def check_room_here(self, resources: Resources) -> None:
        """Raise ConfigError if this machine lacks what a trial needs."""
        if why := _lacking(self, resources):
            raise ConfigError(f"{why}. Lower it with --set, or set resources.gpus to auto.", exit_code=3)


class DefaultCluster(ClusterSpec):
    """The cluster of a launch without `--cluster`: `local`, or `inline` where Ray does not start."""


def find_cluster(text: str | None, *, cpus: int | None = None, gpus: int | None = None) -> ClusterSpec:
    """The cluster that `--cluster` names.

    Args:
        text: A word or the path of a file; None if the option is not given.
        cpus, gpus: What it may use of this machine, instead of what its file says.

    Raises:
        ConfigError: not a known word or a readable cluster file; or not of this machine, and parts of it.
    """
    for name, n, least in (("cpus", cpus, 1), ("gpus", gpus, 0)):
        if n is not None and n < least:
            raise ConfigError(f"--{name} {n}: must be {least} or more.")
    given = {name: n for name, n in (("cpus", cpus), ("gpus", gpus)) if n is not None}
    cluster = (DefaultCluster() if text is None else _read_cluster(text)).model_copy(update=given)
    if not cluster.is_here and (cluster.cpus, cluster.gpus) != (None, None):
        raise ConfigError(
            f"--cpus and --gpus say what a launch uses of this machine, but {text} is a cluster. Give what one trial "
            "gets of it under `resources`, and the number of trials under `concurrency`."
        )
    return cluster


def _read_cluster(text: str) -> ClusterSpec:
    if text in WORDS or "://" in text:
        return ClusterSpec(address=_checked_address(text, "--cluster "))
    document = Document.read(_file(text), list(ClusterSpec.model_fields))
    try:
        cluster = ClusterSpec.model_validate(document.content)
    except ValidationError as error:
        problems = [document.place(fault.path) + fault.text for fault in faults(error, ClusterSpec)]
        raise ConfigError(first_problems(problems)) from error
    _checked_address(cluster.address, document.place(("address",)))
    return cluster


def _file(text: str) -> Path:
    try:
        path = Path(text).expanduser()
        is_there = path.is_file()
    except (OSError, RuntimeError) as error:  # too long, or the home of an unknown user
        raise ConfigError(
            [f"--cluster {text!r:.200} is not a path ({getattr(error, 'strerror', None) or error})."]
        ) from error
    if path.suffix not in _FILES and not is_there:
        raise ConfigError([f"--cluster {text}: must be {', '.join(WORDS)}, or a file like those in configs/clusters/."])
    return path


def _checked_address(address: str, place: str) -> str:
    """The address. Raises ConfigError if it is none of `WORDS`; the text may contain a password."""
    if address in WORDS:
        return address
    if "://" in address:
        raise ConfigError([f"{place}joins no address. Submit the launch to that cluster: {SUBMIT}"])
    raise ConfigError([f"{place}{address}: must be {', '.join(WORDS)}."])

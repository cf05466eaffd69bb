"""The settings of a KubeRay cluster: names, images, workers, store; validated when built."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.storage.address import parse_address
from trials.errors import ConfigError

MOST_WORKERS = 10_000
# The shortest notice of a cloud is 25 s (GKE); elsewhere a trial has a minute to save its checkpoint.
_GRACE_S, _SPOT_GRACE_S = 60, 15
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")  # KubeRay appends to it, and 63 is the limit of a label
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[a-z0-9][\w./:-]*(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class Workers:
    """The minimum and maximum number of worker pods of a kind."""

    least: int
    most: int

    @classmethod
    def parse(cls, option: str, text: str) -> Workers:
        """Parse e.g. `1:4`. Raises ConfigError, which names the option."""
        found = re.fullmatch(r"(\d{1,6}):(\d{1,6})", text, re.ASCII)
        if found is None or not int(found[1]) <= int(found[2]) <= MOST_WORKERS:
            rule = f"two numbers MIN:MAX are needed, MIN not above MAX and MAX not above {MOST_WORKERS:,}."
            raise ConfigError(f"{option}: {text!r:.100}, but {rule}")
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, kw_only=True)
class KubeRay:
    """The settings that KubeRay manifests are made from, validated when built.

    Attributes:
        image: With a tag or a digest; the same for all pods, so the CUDA image if there are GPU workers.
        gpu_kind: As `nvidia.com/gpu.product` labels a node, or empty for any.
        spot: Whether workers may run on spot machines.
        store: Address of the results store, or empty for a volume.
        volume: A PersistentVolumeClaim that all pods can mount, or empty for a store.
        token_secret: Name of the secret that holds Ray's token; never the token.
        sweep: Text of a sweep's YAML, or empty for the starter sweep.

    Raises:
        ConfigError: all that is wrong, each with its option.
    """

    name: str
    image: str
    cpu: Workers
    gpu: Workers
    gpu_kind: str = ""
    spot: bool = False
    store: str = ""
    volume: str = ""
    token_secret: str = ""
    sweep: str = ""

    def __post_init__(self) -> None:
        rules = {
            "--name": (_NAME, self.name, "lower-case letters, digits and `-`, 40 at most, beginning with a letter"),
            "--image": (_IMAGE, self.image, "a lower-case name with a tag or a digest"),
            "--volume": (_SUBDOMAIN, self.volume or "any", "the name of a PersistentVolumeClaim"),
            "--token-secret": (_SUBDOMAIN, self.secret, "the name of a Secret"),
            "--gpu-kind": (_LABEL, self.gpu_kind or "any", "the value of a node's label nvidia.com/gpu.product"),
        }
        problems = [
            f"{option}: {value!r:.100}, but {rule} is needed."
            for option, (pattern, value, rule) in rules.items()
            if not pattern.fullmatch(value)
        ]
        if bool(self.store) == bool(self.volume):
            problems.append("--store, --volume: exactly one of them says where the results go.")
        if self.store:
            problems += _of_store(self.store)
        if not self.cpu.most + self.gpu.most:
            problems.append("--workers-cpu, --workers-gpu: there would be no worker at all.")
        if problems:
            raise ConfigError(problems)

    @property
    def secret(self) -> str:
        """Name of the secret with Ray's token."""
        return self.token_secret or f"{self.name}-token"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of every object, by which the policies select the pods."""
        return {"app.kubernetes.io/name": "permafrost", "app.kubernetes.io/instance": self.name}

    @property
    def grace_s(self) -> int:
        """Seconds that a worker's trials have to save their checkpoints."""
        return _SPOT_GRACE_S if self.spot else _GRACE_S


def _of_store(text: str) -> list[str]:
    try:
        parse_address(text)
    except ConfigError as error:
        return [f"--store: {error} Pods share no local folder; give a shared claim with --volume."]
    return []

"""What a Kubernetes cluster with KubeRay is given to run sweeps: RayCluster, RayJob, NetworkPolicy, ConfigMap.

Pure functions from a `KubeRay`, which cannot be wrong once it is built, to plain dictionaries. They keep to KubeRay's
definitions of `ray.io/v1`; the containers' main process is `docker/entrypoint.py`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from orchestrator.deploy.kuberay_pods import RESULTS, SWEEP_FILE, Manifest, amount, closed, submitter, template
from orchestrator.storage.address import endpoint, parse_address
from trials.errors import ConfigError

MOST_WORKERS = 10_000
TOKEN_KEY = "auth_token"  # noqa: S105  # the key that KubeRay looks for in the secret
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")  # KubeRay appends to it, and 63 is the limit of a label
_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"[a-z0-9][\w./:-]*(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
# The shortest notice of a cloud is 25 s (GKE); elsewhere a trial may take a minute to be kept.
_GRACE_S, _SPOT_GRACE_S = 60, 15
# The same on every node as in docker/entrypoint.py; without these Ray takes any free ports.
_PORTS = {
    "node-manager-port": "6380", "object-manager-port": "6381", "dashboard-agent-grpc-port": "6382",
    "runtime-env-agent-port": "6383", "dashboard-agent-listen-port": "52365", "metrics-export-port": "8080",
    "min-worker-port": "10100", "max-worker-port": "10999",
}  # fmt: skip


@dataclass(frozen=True)
class Workers:
    """How many pods of a kind there may be."""

    least: int
    most: int

    @classmethod
    def parse(cls, option: str, text: str) -> Workers:
        """From `1:4`. Raises ConfigError, in which the option is named."""
        found = re.fullmatch(r"(\d{1,6}):(\d{1,6})", text, re.ASCII)
        if found is None or not int(found[1]) <= int(found[2]) <= MOST_WORKERS:
            rule = f"two numbers MIN:MAX are needed, MIN not above MAX and MAX not above {MOST_WORKERS:,}."
            raise ConfigError(f"{option}: {text!r:.100}, but {rule}")
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, kw_only=True)
class KubeRay:
    """What is asked for.

    Attributes:
        image: With a tag or a digest; the same for all pods, so the CUDA image where there are GPU workers.
        gpu_kind: As `nvidia.com/gpu.product` labels a node, or empty for any.
        spot: Whether workers may run on machines that are taken back at short notice.
        store: Address of the results store, or empty for a volume.
        volume: A claim that all pods can mount, or empty for a store.
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
        """What every object carries, and by which the policies know the pods."""
        return {"app.kubernetes.io/name": "permafrost", "app.kubernetes.io/instance": self.name}

    @property
    def grace_s(self) -> int:
        """Seconds that a worker's trials have to be kept in."""
        return _SPOT_GRACE_S if self.spot else _GRACE_S


def _of_store(text: str) -> list[str]:
    try:
        parse_address(text)
    except ConfigError as error:
        return [f"--store: {error} Pods share no folder of their own; a claim that they share is given with --volume."]
    return []


def manifests(asked: KubeRay) -> dict[str, Manifest]:
    """All objects, by the name of their file."""
    found = {"raycluster": _cluster(asked), "rayjob": _job(asked), "networkpolicy": _policy(asked)}
    if asked.sweep:
        found["configmap"] = _object(asked, "v1", "ConfigMap", f"{asked.name}-sweep", data={"sweep.yaml": asked.sweep})
    return {f"{name}.yaml": manifest for name, manifest in found.items()}


def _object(asked: KubeRay, api: str, kind: str, name: str, **rest: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": asked.labels}, **rest}


def _cluster(asked: KubeRay) -> Manifest:
    return _with_own_command(_object(asked, "ray.io/v1", "RayCluster", asked.name, spec=_cluster_spec(asked)))


def _with_own_command(manifest: Manifest) -> Manifest:
    # KubeRay hands what it would have run to the container's own main process; a job gives it on to its cluster.
    manifest["metadata"]["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
    return manifest


def _job(asked: KubeRay) -> Manifest:
    words = ["permafrost", "launch", "--cluster", "auto", "--store", asked.store or RESULTS]
    words += ["--sweep", SWEEP_FILE] if asked.sweep else []
    spec = {
        "entrypoint": shlex.join(words),
        # A launch goes on where the last one was interrupted, so trying again costs only what was not finished.
        "backoffLimit": 2,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 600,
        "submissionMode": "K8sJobMode",
        "submitterPodTemplate": {"metadata": {"labels": asked.labels}, "spec": submitter(asked)},
        "rayClusterSpec": _cluster_spec(asked),
    }
    return _with_own_command(_object(asked, "ray.io/v1", "RayJob", asked.name, spec=spec))


def _cluster_spec(asked: KubeRay) -> Manifest:
    groups = [_group(asked, "cpu", asked.cpu, 0), _group(asked, "gpu", asked.gpu, 1)]
    return {
        "rayVersion": version("ray"),
        "authOptions": {"mode": "token", "secretName": asked.secret},
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {
            "version": "v2",
            "idleTimeoutSeconds": 120,
            "resources": amount("500m", "512Mi"),
            **closed(),
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  # the head's
        },
        "headGroupSpec": {
            "rayStartParams": {**_PORTS, "num-cpus": "0", "dashboard-host": "0.0.0.0"},  # noqa: S104  # the policy
            "template": template(asked, "ray-head", amount("2", "6Gi")),
        },
        "workerGroupSpecs": [group for group in groups if group["maxReplicas"]],
    }


def _group(asked: KubeRay, name: str, workers: Workers, gpus: int) -> Manifest:
    pod = amount("8", "32Gi", gpus) if gpus else amount("2", "6Gi")
    return {
        "groupName": name,
        "replicas": workers.least,
        "minReplicas": workers.least,
        "maxReplicas": workers.most,
        "rayStartParams": dict(_PORTS),
        "template": template(asked, "ray-worker", pod, gpus),
    }


def _policy(asked: KubeRay) -> Manifest:
    own = [{"podSelector": {"matchLabels": asked.labels}}]
    operator = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}}}
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    spec = {
        "podSelector": {"matchLabels": asked.labels},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {"from": own},
            {"from": [operator], "ports": _ports(8265)},
            {"from": [monitoring], "ports": _ports(8080)},
        ],
        "egress": [
            {"to": own},
            {"to": [{"namespaceSelector": {}}], "ports": [{"protocol": kind, "port": 53} for kind in ("UDP", "TCP")]},
            # The bucket, treebanks and models; Kubernetes itself for the autoscaler.
            {"ports": _ports(443, 6443, *_store_ports(asked))},
        ],
    }
    return _object(asked, "networking.k8s.io/v1", "NetworkPolicy", asked.name, spec=spec)


def _ports(*numbers: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": number} for number in numbers]


def _store_ports(asked: KubeRay) -> list[int]:
    """The port of a store that names one; the usual one of HDFS."""
    if not asked.store:
        return []
    address = parse_address(asked.store)
    found = re.search(r":(\d+)$", (endpoint(address)[0] if address.scheme != "hdfs" else address.host) or "")
    usual = [8020] if address.scheme == "hdfs" else []
    return [int(found[1])] if found else usual

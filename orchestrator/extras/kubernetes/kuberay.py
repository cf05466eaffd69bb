"""Kubernetes manifests to run sweeps with KubeRay: RayCluster, RayJob, NetworkPolicy, ConfigMap.

Pure functions from a validated `KubeRay` to plain dictionaries for KubeRay's API `ray.io/v1`. The main process
of the containers is `docker/entrypoint.py`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from orchestrator.storage.address import endpoint_url, parse_address
from trials.errors import ConfigError

# The settings of a KubeRay cluster: names, images, workers, store; validated when built.

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
        match = re.fullmatch(r"(\d{1,6}):(\d{1,6})", text, re.ASCII)
        if match is None or not int(match[1]) <= int(match[2]) <= MOST_WORKERS:
            rule = f"two numbers MIN:MAX are needed, MIN not above MAX and MAX not above {MOST_WORKERS:,}."
            raise ConfigError(f"{option}: {text!r:.100}, but {rule}")
        return cls(int(match[1]), int(match[2]))


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


# The pods of a KubeRay cluster: their containers, permissions and placement, as plain dictionaries.

Manifest = dict[str, Any]

RESULTS, SWEEP_FILE = "/results", "/etc/permafrost/sweep.yaml"
ENTRYPOINT = ["python", "/opt/permafrost/entrypoint.py"]
USER = 10001  # as in docker/Dockerfile
_ENDING_S = 10  # for Ray to shut down, after trials have saved their checkpoints
# How clouds mark spot machines: taints of GKE and AKS; labels of these and of EKS and Karpenter.
_SPOT_TAINTS = {"cloud.google.com/gke-spot": "true", "kubernetes.azure.com/scalesetpriority": "spot"}
_SPOT_LABELS = {**_SPOT_TAINTS, "eks.amazonaws.com/capacityType": "SPOT", "karpenter.sh/capacity-type": "spot"}


def template(asked: KubeRay, role: str, resources: Manifest, gpus: int = 0) -> Manifest:
    """The pods of a head (`ray-head`) or of a group of workers (`ray-worker`)."""
    head = role == "ray-head"
    spec = _pod() | {
        "containers": [_container(asked, role, resources)],
        "volumes": _volumes(asked, head=head, gpus=gpus),
        "terminationGracePeriodSeconds": asked.grace_s + _ENDING_S,
    }
    if not head:
        spec |= _placed(asked, gpus) | {"automountServiceAccountToken": False}
    else:
        del spec["automountServiceAccountToken"]  # its autoscaler needs the Kubernetes API
    return {"metadata": {"labels": asked.labels}, "spec": spec}


def _container(asked: KubeRay, role: str, resources: Manifest) -> Manifest:
    head = role == "ray-head"
    ports = {"metrics": 8080} | ({"gcs-server": 6379, "dashboard": 8265, "client": 10001} if head else {})
    return {
        "name": role,
        "image": asked.image,
        "command": [*ENTRYPOINT, "kuberay"],
        "env": [{"name": "PERMAFROST_GRACE_S", "value": str(asked.grace_s)}],
        # Credentials for the bucket, if the pods' own identity has no access.
        "envFrom": [{"secretRef": {"name": f"{asked.name}-store", "optional": True}}],
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "resources": resources,
        **closed(),
        **_probes(["http://127.0.0.1:8265/api/gcs_healthz"] if head else []),
        "volumeMounts": [
            {"name": volume["name"], "mountPath": _PLACES[volume["name"]]} for volume in _volumes(asked, head=head)
        ],
    }


_PLACES = {
    "tmp": "/tmp",  # noqa: S108
    "shm": "/dev/shm",  # noqa: S108  # Ray's object store
    "cache": "/var/cache/permafrost",
    "results": RESULTS,
    "sweep": "/etc/permafrost",
}


def _volumes(asked: KubeRay, *, head: bool, gpus: int = 0) -> list[Manifest]:
    shared = "10Gi" if gpus else "2Gi"  # 30 % of the pod's memory, or Ray keeps its objects in /tmp
    volumes: list[Manifest] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared}},
        {"name": "cache", "emptyDir": {}},
    ]
    if asked.volume:
        volumes.append({"name": "results", "persistentVolumeClaim": {"claimName": asked.volume}})
    if asked.sweep and head:
        # Optional, so that a cluster without a job can start.
        volumes.append({"name": "sweep", "configMap": {"name": f"{asked.name}-sweep", "optional": True}})
    return volumes


def _pod() -> Manifest:
    return {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }  # fmt: skip


def closed() -> Manifest:
    """The security context of a container without privileges that only writes into its volumes."""
    return {
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
        }
    }  # fmt: skip


def _probes(ready: list[str]) -> Manifest:
    check = {"exec": {"command": [*ENTRYPOINT, "healthy"]}, "timeoutSeconds": 5}
    return {
        "startupProbe": {**check, "periodSeconds": 5, "failureThreshold": 36},
        "livenessProbe": {**check, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**check, "exec": {"command": [*ENTRYPOINT, "healthy", *ready]}, "periodSeconds": 10},
    }


def amount(cpu: str, memory: str, gpus: int = 0) -> Manifest:
    """Equal requests and limits of a container, in Kubernetes' units."""
    most = {"cpu": cpu, "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"requests": dict(most), "limits": most}


def _placed(asked: KubeRay, gpus: int) -> Manifest:
    """The nodes on which a worker may run, and those that it prefers."""
    tolerated = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}] if gpus else []
    placement: Manifest = {}
    if asked.spot:
        tolerated += [
            {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
            for key, value in _SPOT_TAINTS.items()
        ]
        wishes = [
            {"weight": 100, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}
            for key, value in _SPOT_LABELS.items()
        ]
        placement["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}
    if gpus and asked.gpu_kind:
        placement["nodeSelector"] = {"nvidia.com/gpu.product": asked.gpu_kind}
    return placement | ({"tolerations": tolerated} if tolerated else {})


def submitter(asked: KubeRay) -> Manifest:
    """The pod that submits a job to the head; KubeRay sets its command."""
    container = {"name": "submitter", "image": asked.image, **closed(), "resources": amount("500m", "1Gi")}
    container["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108
    return {**_pod(), "restartPolicy": "Never", "containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}]}


# The same as in docker/entrypoint.py; by default Ray uses any free ports.
_PORTS = {
    "node-manager-port": "6380", "object-manager-port": "6381", "dashboard-agent-grpc-port": "6382",
    "runtime-env-agent-port": "6383", "dashboard-agent-listen-port": "52365", "metrics-export-port": "8080",
    "min-worker-port": "10100", "max-worker-port": "10999",
}  # fmt: skip


def manifests(asked: KubeRay) -> dict[str, Manifest]:
    """All manifests, by file name."""
    cluster = _with_own_command(_object(asked, "ray.io/v1", "RayCluster", asked.name, spec=_cluster_spec(asked)))
    by_name = {"raycluster": cluster, "rayjob": _job(asked), "networkpolicy": _policy(asked)}
    if asked.sweep:
        by_name["configmap"] = _object(
            asked, "v1", "ConfigMap", f"{asked.name}-sweep", data={"sweep.yaml": asked.sweep}
        )
    return {f"{name}.yaml": manifest for name, manifest in by_name.items()}


def _object(asked: KubeRay, api: str, kind: str, name: str, **rest: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": asked.labels}, **rest}


def _with_own_command(manifest: Manifest) -> Manifest:
    # KubeRay passes its command to the container's own main process; a job passes the annotation on to its cluster.
    manifest["metadata"]["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
    return manifest


def _job(asked: KubeRay) -> Manifest:
    command = ["permafrost", "launch", "--cluster", "auto", "--store", asked.store or RESULTS]
    command += ["--sweep", SWEEP_FILE] if asked.sweep else []
    spec = {
        "entrypoint": shlex.join(command),
        # A launch resumes where the last one was interrupted, so a retry only repeats unfinished work.
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
    store_port = re.findall(r":(\d+)$", (endpoint_url(parse_address(asked.store)) or "") if asked.store else "")
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
            # The bucket, treebanks and models; the Kubernetes API for the autoscaler.
            {"ports": _ports(443, 6443, *map(int, store_port))},
        ],
    }
    return _object(asked, "networking.k8s.io/v1", "NetworkPolicy", asked.name, spec=spec)


def _ports(*numbers: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": number} for number in numbers]

"""The pods of a KubeRay cluster: their containers, permissions and placement, as plain dictionaries."""

from __future__ import annotations

from typing import Any

from orchestrator.deploy.kuberay_spec import KubeRay

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
    found: list[Manifest] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared}},
        {"name": "cache", "emptyDir": {}},
    ]
    if asked.volume:
        found.append({"name": "results", "persistentVolumeClaim": {"claimName": asked.volume}})
    if asked.sweep and head:
        # Optional, so that a cluster without a job can start.
        found.append({"name": "sweep", "configMap": {"name": f"{asked.name}-sweep", "optional": True}})
    return found


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
    found: Manifest = {}
    if asked.spot:
        tolerated += [
            {"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
            for key, value in _SPOT_TAINTS.items()
        ]
        wishes = [
            {"weight": 100, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}}
            for key, value in _SPOT_LABELS.items()
        ]
        found["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}
    if gpus and asked.gpu_kind:
        found["nodeSelector"] = {"nvidia.com/gpu.product": asked.gpu_kind}
    return found | ({"tolerations": tolerated} if tolerated else {})


def submitter(asked: KubeRay) -> Manifest:
    """The pod that submits a job to the head; KubeRay sets its command."""
    container = {"name": "submitter", "image": asked.image, **closed(), "resources": amount("500m", "1Gi")}
    container["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108
    return {**_pod(), "restartPolicy": "Never", "containers": [container], "volumes": [{"name": "tmp", "emptyDir": {}}]}

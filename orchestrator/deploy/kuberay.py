"""Kubernetes manifests to run sweeps with KubeRay: RayCluster, RayJob, NetworkPolicy, ConfigMap.

Pure functions from a validated `KubeRay` to plain dictionaries for KubeRay's API `ray.io/v1`. The main process
of the containers is `docker/entrypoint.py`.
"""

from __future__ import annotations

import re
import shlex
from importlib.metadata import version
from typing import Any

from orchestrator.deploy.kuberay_pods import RESULTS, SWEEP_FILE, Manifest, amount, closed, submitter, template
from orchestrator.deploy.kuberay_spec import KubeRay, Workers
from orchestrator.storage.address import endpoint_url, parse_address

# The same as in docker/entrypoint.py; by default Ray uses any free ports.
_PORTS = {
    "node-manager-port": "6380", "object-manager-port": "6381", "dashboard-agent-grpc-port": "6382",
    "runtime-env-agent-port": "6383", "dashboard-agent-listen-port": "52365", "metrics-export-port": "8080",
    "min-worker-port": "10100", "max-worker-port": "10999",
}  # fmt: skip


def manifests(asked: KubeRay) -> dict[str, Manifest]:
    """All manifests, by file name."""
    cluster = _with_own_command(_object(asked, "ray.io/v1", "RayCluster", asked.name, spec=_cluster_spec(asked)))
    found = {"raycluster": cluster, "rayjob": _job(asked), "networkpolicy": _policy(asked)}
    if asked.sweep:
        found["configmap"] = _object(asked, "v1", "ConfigMap", f"{asked.name}-sweep", data={"sweep.yaml": asked.sweep})
    return {f"{name}.yaml": manifest for name, manifest in found.items()}


def _object(asked: KubeRay, api: str, kind: str, name: str, **rest: Any) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": asked.labels}, **rest}


def _with_own_command(manifest: Manifest) -> Manifest:
    # KubeRay passes its command to the container's own main process; a job passes the annotation on to its cluster.
    manifest["metadata"]["annotations"] = {"ray.io/overwrite-container-cmd": "true"}
    return manifest


def _job(asked: KubeRay) -> Manifest:
    words = ["permafrost", "launch", "--cluster", "auto", "--store", asked.store or RESULTS]
    words += ["--sweep", SWEEP_FILE] if asked.sweep else []
    spec = {
        "entrypoint": shlex.join(words),
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

"""The pods of docker/kubernetes/permafrost.yaml as containers: a sweep, and who gets in."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.store import open_store
from tests.docker.test_manifests import MANIFEST
from tests.lab.chaos import compare
from tests.lab.chaos.cluster import base_environment
from tests.lab.deploy.container import Container
from tests.lab.deploy.image import IMAGE_MARKS, Image
from tests.lab.deploy.networks import wait_until
from tests.lab.deploy.pods import Peer, Pods, start_command, submit_command
from tests.lab.deploy.test_stack import SWEEP, Deployment

pytestmark = IMAGE_MARKS
HEAD = "permafrost-head-svc.lab.svc.cluster.local"
STORE = "s3://permafrost/pods?endpoint_override=http://store:8333&region=us-east-1"


@dataclass(frozen=True)
class Cluster:
    """What KubeRay made of a RayJob, beside a store.

    Attributes:
        sweep: What the submitter said, once the job had ended.
    """

    stack: Deployment
    pods: Pods
    spec: dict[str, Any]
    sweep: str


def passes(container: Container, probe: dict[str, Any]) -> bool:
    return container.run(*probe["exec"]["command"], timeout=60).returncode == 0


def edited() -> tuple[dict[str, Any], dict[str, Any]]:
    """The policy and the job, edited as the file says: the store and its port, two workers, none with a GPU."""
    text = MANIFEST.read_text(encoding="utf-8")
    policy, job = yaml.safe_load_all(text.replace("s3://permafrost/results", shlex.quote(STORE)))
    policy["spec"]["egress"][-1]["ports"].append({"protocol": "TCP", "port": 8333})
    groups = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    groups[:] = [groups[0] | {"replicas": 2}]
    return policy, job


@pytest.fixture(scope="module")
def cluster(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("pods")
    policy, job = edited()
    spec = job["spec"]
    (folder / "stack").mkdir()
    with Deployment(image, folder / "stack") as stack:
        stack.up("bucket")
        pods = Pods(stack.bridge, image, folder, policy)
        pods.maps["permafrost-sweep"] = {"sweep.yaml": SWEEP}
        keys = {"AWS_ACCESS_KEY_ID": "s3_access_key", "AWS_SECRET_ACCESS_KEY": "s3_secret_key"}
        pods.secrets["permafrost-store"] = {name: (stack.secrets / file).read_text() for name, file in keys.items()}
        head, (group,) = spec["rayClusterSpec"]["headGroupSpec"], spec["rayClusterSpec"]["workerGroupSpecs"]
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": (stack.secrets / "ray_token").read_text()}
        try:
            own = {"KUBERAY_GEN_RAY_START_CMD": start_command(head), "RAY_ADDRESS": "127.0.0.1:6379"}
            one = pods.start("head", head["template"], token | own, HEAD)
            ready = head["template"]["spec"]["containers"][0]["readinessProbe"]
            wait_until(lambda: passes(one, ready), 180, "the head is ready")
            for number in range(group["replicas"]):
                own = {"KUBERAY_GEN_RAY_START_CMD": start_command(group, f"{HEAD}:6379")}
                own |= {"RAY_ADDRESS": f"{HEAD}:6379", "FQ_RAY_IP": HEAD}
                pods.start(f"worker{number}", group["template"], token | own)
            command = submit_command(f"http://{HEAD}:8265", spec["entrypoint"])
            submitter = pods.start("submitter", spec["submitterPodTemplate"], token, command=command)
            assert submitter.wait(500) == 0, submitter.said()
            yield Cluster(stack, pods, spec["rayClusterSpec"], submitter.said())
        finally:
            pods.remove()


def test_a_sweep_on_the_manifests_pods_has_the_rows_of_one_without_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(SWEEP, encoding="utf-8")
    words = ["-m", "orchestrator.launch", "--cluster", "inline", "--store", str(tmp_path / "s"), "--offline"]
    environment = base_environment(tmp_path)
    told = subprocess.run(
        [sys.executable, *words, "--sweep", str(tmp_path / "tiny.yaml")], cwd=tmp_path, env=os.environ | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    expected, found = (
        compare.tables(compare.read_rows(open_store(store)))
        for store in (tmp_path / "s", cluster.stack.fetched("pods"))
    )
    # Rows of trials name the machine's own paths and its Python.
    assert expected.pop("trials").keys() == found.pop("trials").keys()
    assert found == expected


def test_every_probe_of_a_pod_passes_and_its_root_is_closed(cluster: Cluster) -> None:
    groups = [cluster.spec["headGroupSpec"], *cluster.spec["workerGroupSpecs"] * 2]
    for name, group in zip(("head", "worker0", "worker1"), groups, strict=True):
        one, (declared,) = cluster.pods.containers[name], group["template"]["spec"]["containers"]
        assert all(passes(one, declared[f"{kind}Probe"]) for kind in ("startup", "liveness", "readiness"))
        assert one.run("touch", "/x", "/opt/permafrost/x").returncode == 1
        assert "CapBnd:\t0000000000000000" in one.run("cat", "/proc/1/status").stdout
        assert "instead of /dev/shm" not in one.log.read_text()


def test_others_reach_the_pods_only_where_the_policy_says(cluster: Cluster) -> None:
    address = cluster.pods.containers["head"].setup.address
    dial = """
import socket, sys
for port in map(int, sys.argv[2:]):
    with socket.socket() as one:
        one.settimeout(1)
        if not one.connect_ex((sys.argv[1], port)):
            print(port)
"""

    def reached(peer: Peer) -> set[int]:
        words = [sys.executable, "-c", dial, address, "6379", "6380", "6381", "8080", "8265"]
        return set(map(int, cluster.stack.bridge.inside(peer.space, *words).split()))

    own = cluster.spec["headGroupSpec"]["template"]["metadata"]["labels"]
    join = cluster.pods.join
    assert reached(join("stranger", "lab", {})) == set()
    assert reached(join("alike", "elsewhere", own)) == set()
    assert reached(join("monitor", "monitoring", {})) == {8080}
    assert reached(join("operator", "system", {"app.kubernetes.io/name": "kuberay-operator"})) == {8265}
    assert reached(join("sibling", "lab", own)) == {6379, 6380, 6381, 8080, 8265}

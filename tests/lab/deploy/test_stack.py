"""docker/compose.yaml as a whole: its services as declared, and a sweep that somebody submits to them.

moto's S3 stands in for SeaweedFS, with the keys of the same secret, Debian's Prometheus for its image; without Grafana.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.chaos import compare
from tests.lab.chaos.cluster import CHECKOUT
from tests.lab.deploy.container import Container
from tests.lab.deploy.image import IMAGE_MARKS, Image
from tests.lab.deploy.networks import wait_until
from tests.lab.deploy.stack import Stack, StandIn
from tests.server_programs import server_program

pytestmark = IMAGE_MARKS

SERVICES = ("store", "head", "worker", "dashboard", "prometheus")
SWEEP = """
name: tiny
trial:
  data: {bundled: UD_Naija-NSC-sample}
  train_size: 300
  lowercase: true
  frozen_dropout: false
  optim: {lr: 1e-3, epochs: 4, batch_size: 8}
space:
  freeze: [none, {strategy: first_k, depth: 2, embeddings: true}]
seeds: [0, 1, 2]
checkpoint: {epochs: 1}
"""
N_TRIALS, N_EPOCHS = 6, 4
# moto with the one identity of SeaweedFS's configuration, whose signatures it checks, and SeaweedFS's page of health.
STORE = """
import json
from moto import settings
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

(identity,) = json.load(open("/run/secrets/s3.json"))["identities"]
(pair,) = identity["credentials"]
iam = iam_backends["123456789012"]["aws"]
iam.create_user("us-east-1", identity["name"])
allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
iam.put_user_policy(identity["name"], "s3", json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
key = iam.create_access_key(identity["name"])
key.access_key_id, key.secret_access_key = pair["accessKey"], pair["secretKey"]
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
moto = DomainDispatcherApplication(create_backend_app)

def store(environ, start):
    if environ["PATH_INFO"] != "/healthz":
        return moto(environ, start)
    start("200 OK", [])
    return [b""]

run_simple("0.0.0.0", 8333, store, threaded=True)
"""
STOPPED_S = 400  # for a sweep of which something is stopped
FETCH = """
import sys
from pathlib import Path
from orchestrator.storage.open_storage import open_storage

def fetch(storage, folder):
    folder.mkdir(parents=True)
    for name in storage.files():
        (folder / name).write_bytes(storage.read(name))
    for name in storage.folders():
        fetch(storage.at(name), folder / name)

fetch(open_storage(sys.argv[1]), Path(sys.argv[2]))
"""


class Deployment(Stack):
    """The stack, and what somebody does with it on its host."""

    def __init__(self, image: Image, folder: Path) -> None:
        self.secrets, self._stores = folder / "secrets", folder / "stores"
        subprocess.run(["sh", str(CHECKOUT / "docker" / "make_secrets.sh"), str(self.secrets)], check=True)
        shutil.copytree(CHECKOUT / "configs" / "sweeps", folder / "sweeps")
        (folder / "sweeps" / "tiny.yaml").write_text(SWEEP, encoding="utf-8")
        # An interpreter that every user may run, with the packages of the servers.
        (packages,) = Path(server_program("moto_server")).parents[1].glob("lib/*/site-packages")
        stand_ins = {
            "store": StandIn(["/usr/bin/python3", "-c", STORE], environment={"PYTHONPATH": str(packages)}),
            "prometheus": StandIn([shutil.which("prometheus") or ""], "65534:65534", takes_command=True),
        }
        places = {"secrets": self.secrets, "../configs/sweeps": folder / "sweeps"}
        super().__init__(CHECKOUT / "docker" / "compose.yaml", image, folder, stand_ins=stand_ins, places=places)

    def submit(self, store: str) -> Container:
        """The sweep, as docker/README.md runs one of its own."""
        words = ["permafrost", "launch", "--cluster", "http://head:8265", "--store", f"s3://permafrost/{store}"]
        return self.run("sweep", *words, "--sweep", "tiny.yaml")

    def fetched(self, store: str) -> Path:
        """A copy of what a store holds now."""
        folder = self._stores / f"{store}-{time.monotonic_ns()}"
        key, secret = ((self.secrets / name).read_text() for name in ("s3_access_key", "s3_secret_key"))
        url = f"http://{self.containers['store'][0].setup.address}:8333"
        words = [f"AWS_ACCESS_KEY_ID={key}", f"AWS_SECRET_ACCESS_KEY={secret}", f"AWS_ENDPOINT_URL={url}"]
        words += ["AWS_REGION=us-east-1", f"PYTHONPATH={CHECKOUT}", sys.executable, "-c", FETCH]
        self.bridge.on_host("env", *words, f"s3://permafrost/{store}", str(folder))
        return folder

    def get(self, url: str, token: str = "") -> tuple[int, str]:
        """Status and body of what the host's loopback answers."""
        words = ["curl", "--silent", "--write-out", "\n%{http_code}", "--max-time", "60", url]
        body, _, status = self.bridge.on_host(*words, *(["--oauth2-bearer", token] if token else [])).rpartition("\n")
        return int(status), body


@pytest.fixture(scope="module")
def stack(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(image, tmp_path_factory.mktemp("stack")) as stack:
        stack.up(*SERVICES)
        yield stack


@pytest.fixture(scope="module")
def undisturbed(stack: Deployment) -> compare.Tables:
    """The tables of an undisturbed sweep, which the dashboard then shows."""
    sweep = stack.submit("results")
    assert sweep.wait(300) == 0, sweep.said() + stack.containers["head"][0].said()
    return compare.tables(compare.rows_without_paths(stack.fetched("results")))


def test_a_submitted_sweep_completes_and_no_container_that_has_a_store_ends_by_itself(
    stack: Deployment, undisturbed: compare.Tables
) -> None:
    assert (len(undisturbed["trials"]), len(undisturbed["epochs"])) == (N_TRIALS, N_TRIALS * N_EPOCHS)
    assert len(stack.containers["worker"]) == 2
    assert set(stack.restarts) <= {"dashboard"}  # it ends as long as there is no store
    assert "instead of /dev/shm" not in "".join(one.log.read_text() for one in stack.all())


def test_every_service_of_ours_is_the_entrypoint_without_rights_on_a_root_that_is_read_only(
    stack: Deployment, undisturbed: compare.Tables
) -> None:
    for name in ("head", "worker", "dashboard"):
        one = stack.containers[name][0]
        words = one.run("cat", "/proc/1/cmdline").stdout.split("\0")
        assert words[:2] == ["python", "/opt/permafrost/entrypoint.py"]
        status = one.run("cat", "/proc/1/status").stdout
        assert re.findall(r"(?:Uid|CapBnd|NoNewPrivs):\t(\w+)", status) == ["10001", "0" * 16, "1"]
        assert one.run("touch", "/x", "/opt/permafrost/x").returncode == 1
        assert set(one.run("ls", "/run/secrets").stdout.split()) == set(stack.service(name)["secrets"])


def test_the_host_answers_at_published_ports_and_no_others_that_containers_listen_at(
    stack: Deployment, undisturbed: compare.Tables
) -> None:
    stack.wait_healthy(stack.containers["dashboard"][0])
    listening = {
        int(line.split()[3].rpartition(":")[2])
        for container in stack.all()
        if container.exit_code() is None and container.setup.space
        for line in stack.bridge.inside(container.setup.space, "ss", "-ltnH").splitlines()
    }
    dial = "import socket, sys; [print(p) for p in map(int, sys.argv[1:]) if not socket.socket().connect_ex((%r, p))]"
    for address, ports in (("127.0.0.1", {8265, 8050, 9090}), (stack.bridge.gateway, set())):
        answered = stack.bridge.on_host(sys.executable, "-c", dial % address, *map(str, listening))
        assert set(map(int, answered.split())) == ports
    assert {6379, 8333, 10001} < listening


def test_the_dashboards_open_to_who_has_their_tokens(stack: Deployment, undisturbed: compare.Tables) -> None:
    stack.wait_healthy(stack.containers["dashboard"][0])
    token = (stack.secrets / "dashboard_token").read_text()
    assert [stack.get("http://127.0.0.1:8050/", given)[0] for given in ("", "x" * 32, token)] == [401, 401, 200]
    assert "<title>Permafrost</title>" in stack.get("http://127.0.0.1:8050/", token)[1]
    assert stack.get("http://127.0.0.1:8265/api/jobs/")[0] == 401
    assert stack.get("http://127.0.0.1:8265/api/jobs/", (stack.secrets / "ray_token").read_text())[0] == 200


def test_prometheus_scrapes_every_node_and_its_rules_are_in_order(stack: Deployment) -> None:
    stack.wait_healthy(stack.containers["prometheus"][0])

    def asked(path: str) -> Any:
        return json.loads(stack.get(f"http://127.0.0.1:9090/api/v1/{path}")[1])["data"]

    def up() -> set[str]:
        return {one["scrapeUrl"] for one in asked("targets")["activeTargets"] if one["health"] == "up"}

    nodes = [*stack.containers["head"], *stack.containers["worker"]]
    expected = {f"http://{node.setup.address}:8080/metrics" for node in nodes}
    wait_until(lambda: up() == expected, 60, "all targets are up")
    rules = [rule for group in asked("rules")["groups"] for rule in group["rules"]]
    assert rules
    assert {rule["lastError"] for rule in rules if "lastError" in rule} == set()


def has_trial(container: Container) -> bool:
    """Whether a container of a worker trains now, by what Ray's workers call themselves."""
    return "ray::UD_Naija" in container.run("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'").stdout


def ends_undisturbed(stack: Deployment, undisturbed: compare.Tables, store: str) -> None:
    """Assert what is promised of a sweep after each of the stops."""
    folder = stack.fetched(store)
    found = compare.compare(undisturbed, compare.rows_without_paths(folder))
    assert (found.missing, found.surplus, found.different, found.duplicate) == (0, 0, 0, 0), found.examples
    assert compare.lost_intervals(folder) <= 1


def begun(stack: Deployment, store: str) -> Container:
    """A sweep whose first trial has ended, and of which both workers train others."""
    sweep = stack.submit(store)
    wait_until(lambda: f"1/{N_TRIALS} completed" in sweep.said(), STOPPED_S, "a trial has ended")
    return sweep


def test_a_worker_that_is_stopped_keeps_its_trials_for_the_others(
    stack: Deployment, undisturbed: compare.Tables
) -> None:
    sweep, worker = begun(stack, "worker"), stack.containers["worker"][0]
    wait_until(lambda: has_trial(worker), 60, "it has a trial")
    assert stack.stop(worker) == 0
    assert sweep.wait(STOPPED_S) == 0, sweep.said()
    ends_undisturbed(stack, undisturbed, "worker")
    stack.start(worker)


def test_a_sweep_whose_submitter_is_stopped_goes_on_and_submitting_it_again_shares_it(
    stack: Deployment, undisturbed: compare.Tables
) -> None:
    assert stack.stop(begun(stack, "sweep")) == 143
    again = stack.submit("sweep")
    assert again.wait(STOPPED_S) == 0, again.said()
    ends_undisturbed(stack, undisturbed, "sweep")


def test_a_sweep_whose_head_is_stopped_ends_in_order_and_submitting_it_again_resumes_it(
    stack: Deployment, undisturbed: compare.Tables
) -> None:
    sweep, head = begun(stack, "head"), stack.containers["head"][0]
    assert stack.stop(head) == 0
    stack.start(head)
    # 3 where the head had gone before it could say how the job ended.
    told = {143: "ended with exit code 143", 3: "Run the same launch again to resume"}
    assert told[sweep.wait(60)] in sweep.said()
    again = stack.submit("head")
    assert again.wait(STOPPED_S) == 0, again.said()
    assert f" {N_TRIALS} complete in the store" not in again.said()
    ends_undisturbed(stack, undisturbed, "head")

"""Trials that wait for room make a cluster grow, and nodes without trials leave.

Ray's own autoscaler, with its provider that starts nodes as processes of this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.store import open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.lab.chaos.cluster import base_environment, namespaces_allowed
from tests.lab.chaos.processes import end_all

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not namespaces_allowed(), reason="this user may not make network namespaces"),
]

ADDRESS = "127.0.0.1:6379"
HEAD = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
WORKER = {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2}
LISTS = ("cluster_synced_files", "initialization_commands", "setup_commands", "head_setup_commands",
         "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands", "rsync_exclude",
         "rsync_filter")  # fmt: skip
CONFIG: dict[str, Any] = {
    "cluster_name": "grows",
    "max_workers": 2,
    "idle_timeout_minutes": 0.1,
    "upscaling_speed": 100,
    # All nodes have one address, and by addresses the autoscaler would take them for the busy head.
    "provider": {"type": "fake_multinode", "disable_node_updaters": True, "use_node_id_as_ip": True},
    "available_node_types": {"ray.head.default": HEAD, "worker": WORKER},
    "head_node_type": "ray.head.default",
    "auth": {},
    "docker": {},
    "file_mounts": {},
    "file_mounts_sync_continuously": False,
    **{name: [] for name in LISTS},  # what a provider of real machines would do on them
}
SWEEP = """
name: grows
trial: {data: {folder: bank}, lowercase: true, optim: {lr: 1e-3, epochs: 12, batch_size: 4}}
space: {freeze: [none]}
seeds: [0, 1, 2, 3]
"""
COUNT = (
    "import ray; ray.init(address='auto', logging_level='ERROR'); print('up:', sum(n['Alive'] for n in ray.nodes()))"
)


@pytest.fixture
def inside() -> Iterator[tuple[list[str], dict[str, str], Path]]:
    """Words that enter the network of a cluster that has only its head, the environment, and a folder."""
    space = f"grows{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="pf-") as name:
        folder = Path(name)
        settings = {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1", "RAY_AUTH_TOKEN": "x" * 32}
        environment = base_environment(folder) | settings
        (folder / "scaling.json").write_text(json.dumps(CONFIG))
        enter = ["ip", "netns", "exec", space]
        subprocess.run(["ip", "netns", "add", space], check=True)
        try:
            subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
            head = [
                "ray", "start", "--head", "--num-cpus=0", "--port=6379", "--node-ip-address=127.0.0.1",
                f"--autoscaling-config={folder / 'scaling.json'}", "--include-dashboard=false",
                f"--temp-dir={folder / 'ray'}", "--disable-usage-stats",
            ]  # fmt: skip
            subprocess.run([*enter, *head], env=environment, cwd=folder, check=True, capture_output=True, timeout=90)
            yield enter, environment | {"RAY_ADDRESS": ADDRESS}, folder
        finally:
            end_all(folder)
            subprocess.run(["ip", "netns", "delete", space], check=False)


@pytest.mark.slow
def test_a_cluster_without_room_grows_by_what_trials_ask_for_and_shrinks_when_they_are_over(
    inside: tuple[list[str], dict[str, str], Path],
) -> None:
    enter, environment, folder = inside
    write_tagged_treebank(folder / "bank", train=60, dev=10, test=10)
    write_sweep(folder / "s.yaml", SWEEP)
    (folder / "here.yaml").write_text("address: auto\nconcurrency: 2\n")
    words = ["--sweep", "s.yaml", "--cluster", "here.yaml", "--store", "store", "--offline"]
    seen = set[int]()
    with (folder / "said").open("w") as said:
        command = [*enter, sys.executable, "-m", "orchestrator.launch", *words]
        launch = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        while launch.poll() is None:
            seen.add(_n_nodes(enter, environment, folder))
            time.sleep(2)
    assert launch.returncode == 0, (folder / "said").read_text()
    assert max(seen) == 3
    assert len(open_store(folder / "store").completed_ids()) == 4
    while _n_nodes(enter, environment, folder) > 1:
        time.sleep(2)


def _n_nodes(enter: list[str], environment: dict[str, str], folder: Path) -> int:
    words = [*enter, sys.executable, "-W", "ignore", "-c", COUNT]
    shown = subprocess.run(words, env=environment, cwd=folder, check=True, capture_output=True, text=True)
    return int(shown.stdout.split("up:")[1].split()[0])

"""A sweep submitted to a Ray of three nodes, each in a network of its own, from a fourth that is none of them.

The tests share the nodes; the last one loses some.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orchestrator.store import open_store
from tests.builders import write_sweep, write_tagged_treebank
from tests.lab.chaos.cluster import Nodes, namespaces_allowed
from tests.lab.chaos.compare import compare, rows_without_paths, tables
from tests.lab.chaos.processes import end_all
from tests.plugin_packages import install

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not namespaces_allowed(), reason="this user may not make network namespaces"),
]

SCRIPT, RAY = (str(Path(sys.executable).with_name(name)) for name in ("permafrost", "ray"))
SWEEP = """
name: away
trial:
  data: {folder: bank}
  train_size: 120
  lowercase: true
  frozen_dropout: false
  optim: {lr: 1e-3, epochs: 6, batch_size: 4}
space:
  freeze: [none, {strategy: first_k, depth: 2, embeddings: true}]
seeds: [0, 1, 2, 3]
checkpoint: {epochs: 1}
"""

Client = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with tempfile.TemporaryDirectory(prefix="pf-") as folder, Nodes(Path(folder), dashboard=True) as cluster:
        yield cluster  # not under pytest's folder, whose names are too long for Ray's sockets


@pytest.fixture
def laptop(tmp_path: Path) -> Path:
    """A folder with a sweep and its corpus, which no node has."""
    folder = tmp_path / "laptop"
    write_tagged_treebank(folder / "bank", train=150, dev=30, test=30)
    write_sweep(folder / "away.yaml", SWEEP)
    return folder


@pytest.fixture
def client(nodes: Nodes, laptop: Path) -> Iterator[Client]:
    """Run a command of ours on the laptop; `launch` as a job of the cluster, with the laptop's folder."""
    started: list[subprocess.Popen[str]] = []

    def run(command: str, *words: object) -> subprocess.Popen[str]:
        here = {name: value for name, value in nodes.environment.items() if name != "RAY_ADDRESS"}
        ours = [SCRIPT, command, *map(str, words)]
        if command == "launch":
            job = [RAY, "job", "submit", "--address", nodes.dashboard, "--working-dir", "."]
            ours = [*job, "--", *ours, "--cluster", "auto"]
        started.append(
            subprocess.Popen(
                [*nodes.client_prefix, *ours],
                cwd=laptop, env=here, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
        )  # fmt: skip
        return started[-1]

    yield run
    for process in started:
        with process:
            process.kill()


def sent(nodes: Nodes, node: int) -> list[Path]:
    """What Ray has put on a node for workers; the laptop's own folder is only sent to the driver."""
    folder = nodes.driver_folder.parent / f"ray{node}"
    return [path for path in folder.glob("session_2*/runtime_resources/working_dir_files/*/*") if path.is_dir()]


def test_each_node_gets_the_files_of_a_sweep_once(nodes: Nodes, client: Client, tmp_path: Path) -> None:
    words = ("--sweep", "away.yaml", "--offline", "--set", "trial.optim.epochs=1")
    launched = client("launch", *words, "--store", tmp_path / "shared")
    said = launched.communicate(timeout=300)[0]
    assert launched.returncode == 0, said
    for n in (1, 2):
        assert sorted(path.name.split("-")[0] for path in sent(nodes, n)) == ["corpus", "model"]


def test_a_plug_in_that_only_the_laptop_has_runs_on_every_node(
    nodes: Nodes, client: Client, laptop: Path, tmp_path: Path
) -> None:
    install(laptop)
    space = "space={freeze: [none, {strategy: ends, depth: 2}, {strategy: ends, depth: 4}]}"
    words = ("--sweep", "away.yaml", "--offline", "--set", "trial.optim.epochs=1", "--set", space)
    launched = client("launch", *words, "--store", tmp_path / "s", "--plugin", "freeze_ends")
    said = launched.communicate(timeout=300)[0]
    assert launched.returncode == 0, said
    assert "12/12 completed" in said
    assert "□ ■□□□□■ ends 2" in said
    for n in (1, 2):
        assert len([path for path in sent(nodes, n) if path.name == "freeze_ends"]) == 1


def test_while_a_sweep_runs_every_open_port_turns_a_wrong_token_away_but_for_the_metrics(
    nodes: Nodes, client: Client, tmp_path: Path
) -> None:
    store = tmp_path / "shared"
    words = ("launch", "--sweep", "away.yaml", "--offline", "--store", store)
    running = client(*words)
    _until(lambda: _n_epochs(store) >= 1)
    listening = _listening(nodes)
    found = _knock(nodes, list(listening))
    assert set(listening.values()) <= LISTENERS
    open_to_all = {address for address, answer in found.items() if answer == "200"}
    assert len(open_to_all) == 3  # metrics: of the node's agent, of Ray's dashboard, of the autoscaler
    others = {listening[address]: found[address] for address in found.keys() - open_to_all}
    assert set(others.values()) <= {"401", "403", "UNAUTHENTICATED"}, others
    assert running.poll() is None
    stopped = client("stop", store)
    assert stopped.wait(120) == 0, stopped.communicate()[0]


@pytest.mark.slow  # test_ray ends one by a signal
def test_stop_ends_a_submitted_sweep_gracefully_and_launching_again_goes_on(
    nodes: Nodes, client: Client, tmp_path: Path
) -> None:
    store = tmp_path / "shared"
    words = ("launch", "--sweep", "away.yaml", "--offline", "--store", store)
    running = client(*words)
    _until(lambda: _n_epochs(store) >= 2)
    stopped = client("stop", store)
    assert stopped.wait(120) == 0, stopped.communicate()[0]
    said = running.communicate(timeout=300)[0]
    assert running.returncode == 1, said
    assert re.search(r"interrupted, \d trials? left", said)
    again = client(*words)
    assert again.wait(300) == 0, again.communicate()[0]
    assert len(open_store(store).completed_ids()) == 8


def test_a_submitted_sweep_survives_a_lost_node_a_new_one_and_a_cut_and_ends_as_on_one_machine(
    nodes: Nodes, laptop: Path, client: Client, tmp_path: Path
) -> None:
    store, alone = tmp_path / "shared", tmp_path / "alone"
    words = ("--sweep", "away.yaml", "--offline", "--store")
    submitted = client("launch", *words, store)
    _until(lambda: _n_epochs(store) >= 2)
    end_all(nodes.node_folder(1))  # its raylet and workers at once, as when a machine goes
    _until(lambda: _n_epochs(store) >= 8)
    assert nodes.mend() == [1]
    nodes.set_link(2, "down")
    time.sleep(30)
    nodes.set_link(2, "up")
    nodes.mend()
    said = submitted.communicate(timeout=400)[0]
    assert submitted.returncode == 0, said
    assert "8/8 completed" in said
    inline = [SCRIPT, "launch", *map(str, words), str(alone), "--cluster", "inline"]
    subprocess.run(inline, cwd=laptop, env=nodes.environment, check=True)
    found = compare(tables(rows_without_paths(alone)), rows_without_paths(store))
    assert (found.missing, found.surplus, found.different, found.duplicate) == (0, 0, 0, 0), found.examples


def _until(condition: Callable[[], bool], timeout_s: float = 240) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _n_epochs(store: Path) -> int:
    return 0 if not (store / "store.json").exists() else open_store(store).epochs().num_rows


# The processes that docker/README.md names; a worker's title is that of its trial.
LISTENERS = {"gcs_server", "raylet", "python", "permafrost", "ray::DashboardA", "ray::RuntimeEnv", "ray::"}


def _listening(nodes: Nodes) -> dict[str, str]:
    """Address on the head's network -> the process that listens there."""
    shown = subprocess.run([*nodes.prefix, "ss", "-Hltnp"], check=True, capture_output=True, text=True).stdout
    host, found = urlsplit(nodes.dashboard).hostname, dict[str, str]()
    for line in shown.splitlines():
        port, name = line.split()[3].rpartition(":")[2], line.split('(("')[1].split('"')[0]
        found[f"{host}:{port}"] = name if name in LISTENERS else name[:5]
    return found


def _knock(nodes: Nodes, addresses: list[str]) -> dict[str, str]:
    """What each port answers that is still open; a worker that is starting or ending is asked until it says something.

    Raises:
        AssertionError: a port stays open and silent.
    """
    words = [*nodes.prefix, sys.executable, "-m", "tests.end_to_end.knock"]
    answers = dict[str, str]()

    def all_answer() -> bool:
        silent = [address for address in addresses if answers.get(address, "silent") == "silent"]
        done = subprocess.run([*words, *silent], env=nodes.environment, check=True, capture_output=True, text=True)
        answers.update(json.loads(done.stdout))
        return "silent" not in answers.values()

    _until(all_answer)
    return {address: answer for address, answer in answers.items() if answer != "closed"}

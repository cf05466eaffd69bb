"""The distribution's Prometheus scrapes a running sweep with the project's own configuration, and its rules fire.

Only numbers that would make the test long are changed: intervals, `for`, and the settings at the top of `rules.yml`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from tests.builders import write_sweep, write_tagged_treebank
from tests.end_to_end.conftest import environment
from tests.orchestrator.monitoring.prometheus import DOCKER, EXPORTED, program
from tests.server_programs import free_port

pytestmark = pytest.mark.timeout(280)
T = TypeVar("T")
STALLED_S = 12  # an epoch takes one; where the machine is busy, setting up may take longer than this
RAYS_FILE = "/tmp/pf-1000/0/prom_metrics_service_discovery.json"
NONE_HERE = ("retries_total", "energy_joules_total", "prefix_cache_misses_total", "launches_ended_total")

SWEEP = """
trial:
  data: {folder: BANK}
  train_size: 200
  lowercase: true
  frozen_dropout: false
  optim: {lr: 1e-3, epochs: 14, batch_size: 8}
space:
  freeze: [{strategy: first_k, depth: 2, embeddings: true}, {strategy: first_k, depth: 4, embeddings: true}]
seeds: [0, 1]
watch:
  log: log.jsonl
"""


@pytest.fixture
def rays_folder() -> Iterator[Path]:
    """A folder for Ray alone; a short name, as sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="pfwatch-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def launched(folder: Path, rays_folder: Path, *, epochs: int = 14) -> Iterator[subprocess.Popen[str]]:
    """The sweep under way, on a Ray that tells its agent every three seconds instead of every ten."""
    bank = write_tagged_treebank(folder / f"bank{os.getpid()}", train=200, seed=epochs)  # no cached states
    write_sweep(
        folder / "watched.yaml",
        SWEEP.replace("BANK", bank.name).replace("epochs: 14", f"epochs: {epochs}") + "name: watched\n",
    )
    own = {"RAY_TMPDIR": str(rays_folder), "RAY_metrics_report_interval_ms": "3000"}
    words = [sys.executable, "-m", "orchestrator.launch", "--sweep", "watched.yaml", "--store", "store"]
    process = subprocess.Popen(
        words, cwd=folder, env=environment() | own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=30)  # so that its Ray goes too
        process.kill()
        process.communicate()


class Prometheus:
    """Its HTTP interface."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self._address}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float:
        return sum(float(one["value"][1]) for one in self.query(expression))

    def firing(self) -> set[str]:
        alerts = self.get("/api/v1/alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@contextmanager
def prometheus(folder: Path, rays_folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with the project's configuration, quicker."""
    binary = program("prometheus")
    config = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    by_file = config["scrape_configs"][0]
    assert RAYS_FILE in by_file["file_sd_configs"][0]["files"]
    by_file["file_sd_configs"] = [{"files": [str(discovery_file(rays_folder))], "refresh_interval": "1s"}]
    config["scrape_configs"] = [by_file]  # there are no containers to ask the DNS for
    rules = (DOCKER / "prometheus" / "rules.yml").read_text(encoding="utf-8")
    rules = rules.replace("vector(1800)", f"vector({STALLED_S})").replace("for: 1m", "for: 1s")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "rules.yml").write_text(rules, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    words = [binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*words, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait(timeout=20)


def discovery_file(rays_folder: Path) -> Path:
    """Where Ray lists the ports of its metrics, in the folder of this user's only launch."""
    return rays_folder / RAYS_FILE.removeprefix("/tmp/").replace("1000", str(os.getuid()))


def awaited(ask: Callable[[], T], seconds: float) -> T:
    """The first answer that is true; a server that is not up yet has none."""
    until, answer = time.monotonic() + seconds, None
    while time.monotonic() < until:
        try:
            answer = ask()
        except OSError:
            answer = None
        if answer:
            return answer
        time.sleep(0.3)
    raise AssertionError(f"still {answer!r} after {seconds:g} s")


def workers() -> list[int]:
    """The processes that run trials of this test's corpus."""
    found = subprocess.run(["pgrep", "-f", f"^ray::bank{os.getpid()}_"], capture_output=True, text=True).stdout
    return list(map(int, found.split()))


@pytest.mark.cluster
def test_prometheus_sees_a_sweep_and_alarm_is_raised_while_it_is_stalled_and_ends_when_it_goes_on(
    tmp_path: Path, rays_folder: Path
) -> None:
    with (
        launched(tmp_path, rays_folder) as sweep,
        prometheus(tmp_path, rays_folder) as server,
    ):
        awaited(lambda: server.value('ray_permafrost_epochs_total{sweep="watched"}') > 1, 90)
        assert server.value("ray_permafrost_trials_running + ray_permafrost_trials_queued") <= 4
        awaited(lambda: not server.firing(), 60)

        stopped = workers()
        assert stopped
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            awaited(lambda: "PermafrostSweepStalled" in server.firing(), STALLED_S + 30)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        awaited(lambda: "PermafrostSweepStalled" not in server.firing(), 30)
        awaited(lambda: server.value('ray_permafrost_trials_total{state="completed"}') >= 1, 60)
        check_exports(server)
        check_board(server)
        assert sweep.wait(timeout=120) == 0
    told = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [entry["event"] for entry in told].count("evaluated") == 4 * 14
    assert told[-1]["event"] == "done"


@pytest.mark.cluster  # what is told to Ray is tested in test_metrics
def test_rays_agent_exports_the_metrics_of_a_sweep_and_keeps_those_that_do_not_change(
    tmp_path: Path, rays_folder: Path
) -> None:
    with launched(tmp_path, rays_folder, epochs=100):  # it is stopped before its end
        expected = EXPORTED - {f"ray_permafrost_{name}" for name in ("trials_total", *NONE_HERE)}
        awaited(lambda: expected <= exported_now(rays_folder), 90)
        time.sleep(10)  # three times as long as Ray's agent hears nothing new, and more than it remembers a gauge
        assert expected <= exported_now(rays_folder)


def exported_now(rays_folder: Path) -> set[str]:
    """The names at the ports that Ray lists for Prometheus."""
    nodes = json.loads(discovery_file(rays_folder).read_text(encoding="utf-8"))
    names = set[str]()
    for target in (target for node in nodes for target in node["targets"]):
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as answer:
            names |= {line.partition("{")[0] for line in answer.read().decode().splitlines() if line[:1] != "#"}
    return names


def check_exports(server: Prometheus) -> None:
    """All that the table promises is exported, but for what this sweep has none of; no trial's id is a label."""
    names = set(server.get("/api/v1/label/__name__/values"))
    assert {f"ray_permafrost_{name}" for name in NONE_HERE} >= EXPORTED - names
    labels = set(server.get("/api/v1/labels", **{"match[]": '{__name__=~"ray_permafrost.*"}'}))
    rays = {"Component", "NodeAddress", "SessionName", "Version", "WorkerId", "instance", "job", "le", "__name__"}
    assert labels - rays == {"sweep", "state", "device", "store", "cluster", "version"}


def check_board(server: Prometheus) -> None:
    """Each panel's question is one that Prometheus answers; with nothing only what this sweep has none of."""
    board = json.loads((DOCKER / "grafana" / "permafrost.json").read_text(encoding="utf-8"))
    empty = set()
    for panel in (panel for panel in board["panels"] if panel["type"] != "row"):
        asked = (
            target["expr"].replace("$sweep", ".*").replace("$__rate_interval", "30s") for target in panel["targets"]
        )
        if not sum(len(server.query(expression)) for expression in asked):
            empty.add(panel["title"])
    assert empty <= {"GPUs", "GPU memory", "Power of optimiser steps", "Attempts that are tried again"}

"""A launch notices that no node of its cluster is left, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import ray

from orchestrator.ray_engine import cluster
from orchestrator.ray_engine.cluster import ClusterLostError, ending_without_nodes, oom_kills

ALIVE, DEAD = {"Alive": True}, {"Alive": False}
Nodes = Callable[[], list[dict[str, bool]]]


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LOOK_S", 0.005)
    monkeypatch.setattr(cluster, "SILENT_LOOKS", 5)


def raised_with(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a launch on a cluster with these nodes ends with."""
    raised, told = list[Exception](), threading.Event()

    def end(error: Exception) -> None:
        raised.append(error)
        told.set()

    monkeypatch.setattr(ray, "nodes", nodes)
    with ending_without_nodes(end, raised.append):
        assert told.wait(60)
    (error,) = raised
    assert (type(error), getattr(error, "exit_code", 0)) == (ClusterLostError, 1)
    return str(error)


def test_without_a_node_that_is_alive_or_an_answer_of_the_head_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert raised_with(lambda: [DEAD, DEAD], monkeypatch).startswith(
        "no node of the cluster is alive. What was committed"
    )
    assert "the head of the cluster does not answer" in raised_with(lambda: 1 // 0, monkeypatch)  # type: ignore[arg-type, return-value]


def test_with_another_node_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, raised = threading.Semaphore(0), list[Exception]()

    def nodes() -> list[dict[str, bool]]:
        asked.release()
        return [DEAD, ALIVE]

    monkeypatch.setattr(ray, "nodes", nodes)
    with ending_without_nodes(raised.append, raised.append):
        for _ in range(20):
            assert asked.acquire(timeout=60)
    assert raised == []


def test_a_launch_that_does_not_end_is_deserted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ENDING_S", 0.0)
    monkeypatch.setattr(ray, "nodes", lambda: [DEAD])
    deserted = threading.Event()
    with ending_without_nodes(lambda error: None, lambda error: deserted.set()):
        assert deserted.wait(60)


def test_what_the_kernel_counted_since_the_start_is_told() -> None:
    counts: dict[str, Any] = oom_kills()
    assert all(isinstance(n, int) and n >= 0 for n in counts.values())
    one, two = "1 process", "2 processes"
    for after, n in (({"machine": 8, "cgroup": 3}, one), ({"machine": 9}, two)):
        assert cluster._out_of_memory({"machine": 7}, after) == f"The kernel killed {n} meanwhile, as memory ran out. "
    assert cluster._out_of_memory({"machine": 7}, {"machine": 7}) == ""

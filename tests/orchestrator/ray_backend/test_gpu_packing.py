"""A GPU is shared by as many trials as fit by their measured memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.execution.slots import Node, Share
from orchestrator.ray_backend import gpu_packing as packing
from orchestrator.ray_backend.cluster import Cluster, resources_of
from orchestrator.ray_backend.gpu_packing import USABLE, largest_trials, share_of_gpu, slots_for
from orchestrator.sweeps.sweep import Resources
from tests.builders import make_spec
from tests.examples import each
from trials.errors import ConfigError
from trials.run import Footprint


@given(used=st.integers(1, 200_000), total=st.integers(1, 200_000), most=st.integers(1, 64))
def test_together_they_never_ask_for_more_than_the_gpu_nor_take_more_than_its_memory(
    used: int, total: int, most: int
) -> None:
    share = share_of_gpu(Footprint(used, total), most)
    together = int(1 / share + 1e-9)
    assert 1 <= together <= most
    assert together == 1 or together * used <= USABLE * total


@each("used, share", [(50, 1.0), (1, 0.125)])
def test_a_large_trial_has_a_gpu_alone_and_small_ones_share_it_by_the_cores(used: int, share: float) -> None:
    assert share_of_gpu(Footprint(used, 100), most=8) == share


def test_the_pilots_are_the_trials_that_learn_most_of_each_batch_size_length_and_precision() -> None:
    some = {"strategy": "layers", "layers": (0, 1), "embeddings": True}
    specs = [make_spec(freeze=some), make_spec(seed=3), make_spec(seed=4, freeze=some)]
    assert largest_trials(specs) == [specs[1]]
    changes: list[dict[str, object]] = [{}, {"optim": {"batch_size": 64}}, {"max_length": 64}, {"precision": "bf16"}]
    specs = [make_spec(**change) for change in changes]
    assert set(largest_trials(specs)) == set(specs)


class Nodes(Cluster):
    """A cluster as a list of its nodes."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__("", "", "")
        object.__setattr__(self, "_nodes", list(nodes))

    def nodes(self) -> list[Node]:
        found: list[Node] = getattr(self, "_nodes")  # noqa: B009
        return found


def test_a_trial_gets_what_the_sweep_says_or_waits_for_nodes_that_may_come_and_packing_needs_a_gpu() -> None:
    slots = slots_for(Nodes(Node("A100", 16, 2)), Resources(cpus=2, gpus=0.5), [])
    assert (slots.shares, slots.total()) == ({"A100": Share(2, 0.5)}, 4)
    assert slots_for(Nodes(Node("cpu", 2, 0)), Resources(gpus=1), [], concurrency=4).free_kind() == "gpu"
    with pytest.raises(ConfigError, match="the largest node of the cluster has 2 and 0"):
        slots_for(Nodes(Node("cpu", 2, 0)), Resources(gpus="packed"), [])


@each("nodes, device, works, said", [
        ([Node("A100", 16, 2), Node("cpu", 64, 0)], "any", True,
         "2 trials at a time, 1 GPU each on A100; 1 node without a GPU gets none"),
        ([Node("A100", 16, 2), Node("cpu", 64, 0)], "any", False, "80 trials at a time"),
        ([Node("A100", 16, 2), Node("T4", 8, 4)], "T4", True, "4 trials at a time, 1 GPU each on T4"),
        ([Node("A100", 16, 2), Node("cpu", 64, 0)], "cpu", True, "64 trials at a time"),
        ([Node("cpu", 4, 0)], "any", True, "4 trials at a time"),
    ])  # fmt: skip
def test_on_a_cluster_auto_is_a_gpu_each_where_torch_can_use_one(
    nodes: list[Node], device: str, works: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "works_on", lambda kind: works)
    assert slots_for(Nodes(*nodes), Resources(device=device), []).described() == said


def test_each_kind_of_gpu_is_packed_by_its_own_memory_and_its_trials_are_pinned_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = {"A100": Footprint(4, 80), "T4": Footprint(4, 16)}
    monkeypatch.setattr(packing, "measured_footprint", lambda specs, kind: memory[kind])
    slots = slots_for(Nodes(Node("A100", 64, 2), Node("T4", 64, 4)), Resources(gpus="packed"), [])
    assert {kind: int(1 / share.gpus + 1e-9) for kind, share in slots.shares.items()} == {"A100": 18, "T4": 3}
    assert resources_of("A100", Share(1, 0.5)) == {"CPU": 1, "GPU": 0.5, "accelerator_type:A100": 0.001}
    assert resources_of("", Share(2)) == {"CPU": 2, "GPU": 0.0}

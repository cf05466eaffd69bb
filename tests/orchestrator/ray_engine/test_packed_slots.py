"""The first trial runs alone, then as many share a GPU as its memory and the cores allow; fewer once it has run out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.config.limits import Resources
from orchestrator.ray_engine import slots as packing
from orchestrator.ray_engine.slots import (
    CONTEXT_BYTES,
    Node,
    Packed,
    PackedSlots,
    Share,
    fitting,
    resources_of,
    share_of,
    slots_for,
)
from tests.builders import make_spec
from tests.examples import each
from trials.errors import ConfigError, MissingError
from trials.hardware.machine import CudaGpus, Gpu, SilentError

GB = 10**9
NUMBERS = itertools.count()
SPECS = [make_spec(seed=seed) for seed in range(40)]


def card(n_bytes: int, free: int | None = None) -> Gpu:
    return Gpu("a card", n_bytes, free_bytes=free)


def up(*nodes: Node) -> Callable[[], Sequence[Node]]:
    """A cluster of these nodes."""
    return lambda: nodes


def packed(gpus: Sequence[Gpu], *, most: int = 16, **more: Any) -> PackedSlots:
    nodes = [Node("A100", 64, 1)]
    return PackedSlots({"A100": Packed(gpus, most)}, 1, lambda: nodes, **more)


def on_one(slots: PackedSlots) -> int:
    return int(1 / slots.shares["A100"].gpus + 1e-9)


def filled(slots: PackedSlots) -> list[str]:
    """All that start, each as soon as it may."""
    taken = list[str]()
    while (kind := slots.free_kind()) is not None:
        taken.append(f"trial {next(NUMBERS)}")
        slots.take(taken[-1], kind)
        slots.started(taken[-1])
    return taken


# --- How many fit


@given(
    free=st.integers(0, 200 * GB), total=st.integers(GB, 200 * GB), held=st.integers(1, 100 * GB), n=st.integers(1, 64)
)
def test_those_that_fit_never_take_more_than_what_others_left_and_ask_for_no_more_than_the_gpu(
    free: int, total: int, held: int, n: int
) -> None:
    assert fitting([card(total, free)], held) * (CONTEXT_BYTES + held) <= free
    assert int(1 / share_of(n) + 1e-9) == n


def test_other_programs_count_once_and_the_smallest_card_of_a_kind_decides() -> None:
    assert fitting([card(80 * GB, 40 * GB)], 3 * GB) == 11
    assert fitting([card(80 * GB), card(40 * GB)], 3 * GB) == fitting([card(40 * GB)], 3 * GB) == 11
    assert fitting([], 1) == 0


# --- The first trial


def test_the_first_trial_is_alone_until_it_is_measured_and_then_as_many_join_it_as_fit() -> None:
    said = list[str]()
    slots = packed([card(16 * GB)], say=said.append)
    assert slots.described() == "one trial alone, then at most 16 trials at a time, 0.0625 of a GPU each on A100"
    (first,) = filled(slots)
    assert slots.on_one_node("A100") == 1
    slots.measured(0)  # of a process that did not use CUDA
    assert slots.free_kind() is None
    slots.measured(GB)
    assert said == ["note    a trial took 1 GB of its GPU, 640 MB stay in reserve: 9 trials on each A100 from now on"]
    assert (slots.total(), slots.on_one_node("A100"), len(filled(slots))) == (9, 9, 8)
    assert slots.described() == "9 trials at a time, 0.1111 of a GPU each on A100"
    assert slots.relieved(first)  # with the others it counts as one of nine
    assert on_one(slots) == 5


def test_after_the_first_trial_a_quarter_of_the_cores_start_workers_at_a_time() -> None:
    slots, starting = packed([card(80 * GB)], most=32), list[str]()
    slots.measured(GB)
    while (kind := slots.free_kind()) is not None:
        starting.append(f"trial {next(NUMBERS)}")
        slots.take(starting[-1], kind)
    assert len(starting) == 16  # of 64 cores
    slots.started(starting[0])
    slots.give_back(starting[1])
    assert len(filled(slots)) == 17  # all that fit: another may start for each that has
    assert slots.total() == 32


def test_where_the_first_trial_says_nothing_another_is_the_first() -> None:
    slots = packed([card(16 * GB)])
    (first,) = filled(slots)
    slots.give_back(first)
    assert len(filled(slots)) == 1


def test_a_trial_that_holds_more_lowers_the_number_and_one_that_holds_less_changes_nothing() -> None:
    slots = packed([card(16 * GB)])
    for held, n in ((GB, 9), (GB // 2, 9), (4 * GB, 3), (GB, 3), (40 * GB, 1)):
        slots.measured(held)
        assert on_one(slots) == n


def test_where_no_more_than_one_would_share_a_card_nothing_waits() -> None:
    slots = packed([], most=1)
    assert slots.described() == "1 trial at a time, 1 GPU each on A100"
    assert slots.on_one_node("A100") == 1
    assert not slots.relieved(filled(slots)[0])


# --- Memory runs out


def test_where_memory_runs_out_half_as_many_share_a_gpu_from_then_on_and_alone_it_is_the_trials_own_matter() -> None:
    said = list[str]()
    slots, shared = packed([card(80 * GB)], say=said.append), list[int]()
    slots.measured(1)
    while True:
        running = filled(slots)
        shared.append(len(running))
        first, *others = running
        if not slots.relieved(first):
            break
        assert all(slots.relieved(other) for other in others)  # they started with as many as the first
        for trial in running:
            slots.give_back(trial)
    assert shared == [16, 8, 4, 2, 1]
    assert said[1] == "note    memory ran out with 16 trials: 8 trials on each A100 from now on"
    assert len(said) == 5
    slots.measured(2)
    assert on_one(slots) == 1


def test_a_trial_waits_until_few_enough_are_left_beside_it() -> None:
    slots = packed([card(80 * GB)])
    slots.measured(1)
    first, *others = filled(slots)
    assert slots.relieved(first)
    slots.give_back(first)
    for other in others[:8]:
        assert slots.free_kind() is None
        slots.give_back(other)
    assert slots.free_kind() == "A100"


# --- The slots of a cluster


def test_a_trial_gets_what_the_sweep_says_or_waits_for_nodes_that_may_come_and_packing_needs_a_gpu() -> None:
    slots = slots_for(up(Node("A100", 16, 2)), Resources(cpus=2, gpus=0.5), [])
    assert (slots.shares, slots.total()) == ({"A100": Share(2, 0.5)}, 4)
    assert slots_for(up(Node("cpu", 2, 0)), Resources(gpus=1), [], concurrency=4).free_kind() == "gpu"
    with pytest.raises(ConfigError, match="the largest node of the cluster has 2 and 0"):
        slots_for(up(Node("cpu", 2, 0)), Resources(gpus="packed"), SPECS)


def test_with_no_more_trials_than_gpus_nothing_is_shared_and_a_launch_of_few_spreads_them() -> None:
    def share(n: int, most: int | None = None) -> float:
        here = [card(80 * GB)] * 2
        slots = slots_for(
            up(Node("gpu", 64, 2)),
            Resources(gpus="packed"),
            SPECS[:n],
            here=here,
            most=most,
        )
        return slots.shares["gpu"].gpus

    assert [share(n) for n in (1, 2, 3, 8, 40)] == [1.0, 1.0, 0.5, 0.25, 0.05]
    assert share(40, most=2) == 1.0


MIXED = [Node("A100", 16, 2), Node("T4", 8, 4), Node("cpu", 64, 0)]


@each("resources, working, said", [
        (Resources(), {"A100": [card(80 * GB)], "T4": [card(16 * GB)]},
         "one trial alone, then at most 24 trials at a time, 0.125 of a GPU each on A100, 0.5 of a GPU each on T4; "
         "1 node without a GPU gets none"),
        (Resources(), {"T4": []}, "4 trials at a time, 1 GPU each on T4; 1 node without a GPU gets none"),
        (Resources(), {}, "88 trials at a time"),
        (Resources(cpus=8), {"A100": [card(80 * GB)], "T4": [card(16 * GB)]},
         "3 trials at a time, 1 GPU each on A100, 1 GPU each on T4; 1 node without a GPU gets none; 3 GPUs idle "
         "for lack of cores: lower resources.cpus"),
        (Resources(device="cpu"), {"T4": [card(16 * GB)]}, "64 trials at a time"),
    ])  # fmt: skip
def test_on_a_cluster_auto_packs_each_kind_of_gpu_that_torch_can_use_by_its_own_memory(
    resources: Resources, working: dict[str, list[Gpu]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        packing, "gpus_of", lambda chosen, say: {k: CudaGpus(tuple(working[k])) for k in chosen if k in working}
    )
    specs = [make_spec(seed=seed) for seed in range(100)]
    slots = slots_for(up(*MIXED), resources, specs)
    assert slots.described() == said


def test_a_kind_of_which_no_card_can_compute_gets_no_trial_and_the_launch_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = CudaGpus(why_none="torch cannot compute on Tesla K80 (number 0): CUDA error: no kernel image is available")
    answers = {"K80": [old], "T4": [CudaGpus((card(16 * GB),)), None], "V100": [None]}
    monkeypatch.setattr(packing, "asked_nodes", lambda kinds, say: answers)
    said = list[str]()
    assert set(packing.gpus_of(dict.fromkeys(answers, ()), said.append)) == {"T4", "V100"}
    assert said[0] == f"note    K80: {old.why_none}"
    assert said[1:] == [
        f"note    {kind}: 1 node did not say in time what GPUs are free there" for kind in ("T4", "V100")
    ]
    monkeypatch.setattr(packing, "asked_nodes", lambda kinds, say: {"K80": [old]})
    with pytest.raises(ConfigError, match="torch can use no GPU of the cluster"):
        slots_for(up(Node("K80", 2, 1)), Resources(gpus="packed"), SPECS)


@each("error, used", [(SilentError("torch did not list the GPUs in time"), True), (MissingError("no torch"), False)])
def test_a_node_that_is_slow_to_import_torch_is_no_node_without_gpus(
    error: MissingError, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed() -> CudaGpus:
        raise error

    monkeypatch.setattr(packing, "listed_gpus", listed)
    monkeypatch.setattr(packing, "asked_nodes", lambda kinds, say: {"T4": [packing.gpus_there()]})
    said = list[str]()
    assert packing.gpus_of({"T4": ()}, said.append) == ({"T4": CudaGpus()} if used else {})
    assert said[0] == f"note    T4: {error}"
    assert len(said) == 1 + used


def test_trials_are_pinned_to_the_kind_that_their_share_is_of() -> None:
    assert resources_of("A100", Share(1, 0.5)) == {"CPU": 1, "GPU": 0.5, "accelerator_type:A100": 0.001}
    assert resources_of("", Share(2)) == {"CPU": 2, "GPU": 0.0}

"""As many trials share a GPU as its memory and the cores allow, and fewer once memory has run out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.execution.slots import Node, Share
from orchestrator.forecast.gpu_memory import EncoderSizes, gpu_bytes
from orchestrator.forecast.gpu_share import CONTEXT_BYTES, fitting, share_of
from orchestrator.ray_backend import gpu_packing as packing
from orchestrator.ray_backend.cluster import Cluster, resources_of
from orchestrator.ray_backend.gpu_packing import Packed, PackedSlots, slots_for
from orchestrator.sweeps.trial_resources import Resources
from tests.builders import Clock, make_record, make_spec
from tests.examples import each
from tests.orchestrator.forecast.worlds import LENGTHS, spec_of
from trials.errors import ConfigError, MissingError
from trials.hardware.machine import CudaGpus, Gpu, SilentError
from trials.spec import TrialSpec

GB = 10**9
BASE = EncoderSizes(layers=6, width=768, inner=3072, table=23_800_000, table_width=768)  # DistilBERT
SPECS = [spec_of(0, seed=seed) for seed in range(40)]
PEAK = int(gpu_bytes(SPECS[0], BASE, LENGTHS))  # 1.5 GB


def card(n_bytes: int, free: int | None = None) -> Gpu:
    return Gpu("a card", n_bytes, free_bytes=free)


class Nodes(Cluster):
    """A cluster as a list of its nodes."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__("", "", "")
        object.__setattr__(self, "_nodes", list(nodes))

    def nodes(self) -> list[Node]:
        found: list[Node] = getattr(self, "_nodes")  # noqa: B009
        return found


def packed(
    gpus: Sequence[Gpu], *, n_gpus: int = 1, most: int = 16, specs: Sequence[TrialSpec] = SPECS, **more: Any
) -> PackedSlots:
    nodes = [Node("A100", 64, n_gpus)]
    return PackedSlots({"A100": Packed(gpus, most)}, 1, lambda: nodes, specs, lambda spec: (BASE, LENGTHS), **more)


def on_one(slots: PackedSlots) -> int:
    return int(1 / slots.shares["A100"].gpus + 1e-9)


def filled(slots: PackedSlots) -> list[str]:
    """All that start, each as soon as it may; the workers of earlier ones are up."""
    taken = list[str]()
    while (kind := slots.free_kind()) is not None:
        taken.append(SPECS[len(taken)].trial_id)
        slots.take(taken[-1], kind)
        slots.started(taken[-1])
    return taken


# --- How many fit


@given(
    free=st.integers(0, 200 * GB), total=st.integers(GB, 200 * GB), peak=st.integers(1, 100 * GB), n=st.integers(1, 64)
)
def test_those_that_fit_never_take_more_than_what_others_left_and_ask_for_no_more_than_the_gpu(
    free: int, total: int, peak: int, n: int
) -> None:
    assert fitting([card(total, free)], peak) * (CONTEXT_BYTES + peak) <= free
    assert int(1 / share_of(n) + 1e-9) == n


def test_other_programs_count_once_and_the_smallest_card_of_a_kind_decides() -> None:
    assert fitting([card(80 * GB, 40 * GB)], 3 * GB) == 8  # 4.1 GB each; a trial that was charged all of it: 1
    assert fitting([card(80 * GB), card(40 * GB)], 3 * GB) == fitting([card(40 * GB)], 3 * GB) == 9
    assert fitting([], 1) == 0


# --- The first trials


def test_the_first_trial_starts_at_once_and_others_two_at_a_time() -> None:
    slots = packed([card(80 * GB)])
    assert (on_one(slots), slots.total()) == (16, 16)
    slots.take("a", "A100")
    assert slots.free_kind() is None
    slots.started("a")
    for trial in "bc":
        assert slots.free_kind() == "A100"
        slots.take(trial, "A100")
    assert slots.free_kind() is None
    slots.give_back("b")  # its worker was lost before it was up
    slots.take("b", "A100")
    assert slots.free_kind() is None
    slots.give_back("a")  # the next trial takes its worker, while two others start
    assert slots.free_kind() == "A100"
    slots.take("d", "A100")
    assert slots.free_kind() is None


def test_a_worker_that_ends_with_its_trial_leaves_none_to_the_next_one() -> None:
    slots = packed([card(80 * GB)])
    slots.take("a", "A100")
    slots.started("a")
    for trial in "bc":
        slots.take(trial, "A100")
    slots.give_back("a", worker_ends=True)
    assert slots.free_kind() is None
    slots.started("b")
    assert slots.free_kind() == "A100"


def test_a_small_card_is_shared_by_fewer_and_one_that_is_full_takes_one_and_says_so() -> None:
    assert on_one(packed([card(16 * GB)])) == 6
    said = list[str]()
    assert on_one(packed([card(80 * GB, GB)], say=said.append)) == 1
    assert said == ["note    a trial may take 1.6 GB, of which 1 GB are free on A100"]
    unknown = PackedSlots({"T4": Packed([card(16 * GB)], 8)}, 1, lambda: [], SPECS, lambda spec: None)
    assert unknown.shares == {"T4": Share(1, 1.0)}


def test_what_the_first_trial_held_corrects_the_estimate_and_later_ones_like_it_only_lower_it() -> None:
    said = list[str]()
    slots = packed([card(16 * GB)], say=said.append)
    filled(slots)
    slots.measured(SPECS[0], make_record(peak_memory_bytes=1), PEAK // 3)  # the record's leaves out what graphs hold
    assert on_one(slots) == 14
    assert said == ["note    a trial took 535 MB of A100: 14 trials on each A100 from now on"]
    slots.measured(SPECS[1], make_record(), PEAK // 6)
    assert on_one(slots) == 14
    slots.measured(SPECS[2], make_record(), 3 * PEAK)
    assert on_one(slots) == 2
    on_cpu = packed([card(16 * GB)])
    on_cpu.measured(SPECS[0], make_record(peak_memory_bytes=PEAK // 3), None)
    assert on_one(on_cpu) == 6


def test_a_trial_that_is_larger_than_all_measured_before_lets_more_share_a_gpu_again() -> None:
    light, heavy = spec_of(6), SPECS[0]
    small = gpu_bytes(light, BASE, LENGTHS)
    assert small < PEAK
    slots = packed([card(16 * GB)], specs=[light, heavy])
    for spec in (light, heavy):
        slots.take(spec.trial_id, "A100")
    slots.measured(light, make_record(), int(2 * small))  # what all processes hold is much of so little
    assert on_one(slots) == 3
    slots.measured(
        light, make_record(), int(small)
    )  # another of its kind: what is known of the large ones is as before
    assert on_one(slots) == 3
    slots.measured(heavy, make_record(), PEAK // 3)
    held = max(2 * small, PEAK // 3)
    assert on_one(slots) == fitting([card(16 * GB)], held, spare=1.0) > 3


# --- Company


def test_a_trial_that_ran_with_fewer_beside_it_says_so_and_does_not_compare_with_the_others() -> None:
    clock = Clock()
    slots, full = packed([card(80 * GB)], most=4, clock=clock), make_record(gpus=0.25, worker_slots=4)

    def begins(n: int) -> None:
        slots.take(SPECS[n].trial_id, "A100")
        slots.started(SPECS[n].trial_id)

    begins(0)
    clock.now += 6  # alone, while the workers of others start
    for n in (1, 2, 3):
        begins(n)
    clock.now += 4
    assert slots.measured(SPECS[0], full).worker_slots == 2  # (6 * 1 + 4 * 4) / 10
    for n in (1, 2, 3):
        assert slots.measured(SPECS[n], full) == full
    slots.give_back(SPECS[0].trial_id)
    clock.now += 1  # until the next takes its place
    begins(4)
    clock.now += 9
    assert slots.measured(SPECS[1], full) == full
    for n in (2, 3, 4):
        slots.give_back(SPECS[n].trial_id)
    clock.now += 100
    assert slots.measured(SPECS[1], full).worker_slots == 1  # the last one
    alone = make_record(gpus=1.0, worker_slots=1)
    assert slots.measured(SPECS[1], alone) == alone


# --- Memory runs out


def test_where_memory_runs_out_half_as_many_share_a_gpu_from_then_on_and_alone_it_is_the_trials_own_matter() -> None:
    said = list[str]()
    slots, shared = packed([card(80 * GB)], say=said.append), list[int]()
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
    assert said[0] == "note    memory ran out with 16 trials: 8 trials on each A100 from now on"
    assert len(said) == 4
    slots.measured(SPECS[0], make_record(peak_memory_bytes=GB))
    assert on_one(slots) == 1


def test_a_trial_waits_until_few_enough_are_left_beside_it() -> None:
    slots = packed([card(80 * GB)])
    first, *others = filled(slots)
    assert slots.relieved(first)
    slots.give_back(first)
    for other in others[:8]:
        assert slots.free_kind() is None
        slots.give_back(other)
    assert slots.free_kind() == "A100"


# --- The slots of a cluster


def test_a_trial_gets_what_the_sweep_says_or_waits_for_nodes_that_may_come_and_packing_needs_a_gpu() -> None:
    slots = slots_for(Nodes(Node("A100", 16, 2)), Resources(cpus=2, gpus=0.5), [])
    assert (slots.shares, slots.total()) == ({"A100": Share(2, 0.5)}, 4)
    assert slots_for(Nodes(Node("cpu", 2, 0)), Resources(gpus=1), [], concurrency=4).free_kind() == "gpu"
    with pytest.raises(ConfigError, match="the largest node of the cluster has 2 and 0"):
        slots_for(Nodes(Node("cpu", 2, 0)), Resources(gpus="packed"), SPECS)


def test_with_no_more_trials_than_gpus_nothing_is_shared_and_a_launch_of_few_spreads_them() -> None:
    def share(n: int, most: int | None = None) -> float:
        here = [card(80 * GB)] * 2
        slots = slots_for(
            Nodes(Node("gpu", 64, 2)),
            Resources(gpus="packed"),
            SPECS[:n],
            read=lambda s: (BASE, LENGTHS),
            here=here,
            most=most,
        )
        return slots.shares["gpu"].gpus

    assert [share(n) for n in (1, 2, 3, 8, 40)] == [1.0, 1.0, 0.5, 0.25, 0.05]
    assert share(40, most=2) == 1.0


MIXED = [Node("A100", 16, 2), Node("T4", 8, 4), Node("cpu", 64, 0)]


@each("resources, working, said", [
        (Resources(), {"A100": [card(80 * GB)], "T4": [card(16 * GB)]},
         "24 trials at a time, 0.125 of a GPU each on A100, 0.5 of a GPU each on T4; 1 node without a GPU gets none"),
        (Resources(), {"T4": []}, "4 trials at a time, 1 GPU each on T4; 1 node without a GPU gets none"),
        (Resources(), {}, "88 trials at a time"),
        (Resources(cpus=8), {"A100": [card(80 * GB)], "T4": [card(16 * GB)]},
         "3 trials at a time, 1 GPU each on A100, 1 GPU each on T4; 1 node without a GPU gets none; 3 GPUs idle "
         "for want of cores: lower resources.cpus"),
        (Resources(device="cpu"), {"T4": [card(16 * GB)]}, "64 trials at a time"),
    ])  # fmt: skip
def test_on_a_cluster_auto_packs_each_kind_of_gpu_that_torch_can_use_by_its_own_memory(
    resources: Resources, working: dict[str, list[Gpu]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        packing, "gpus_of", lambda chosen, say: {k: CudaGpus(tuple(working[k])) for k in chosen if k in working}
    )
    specs = [make_spec(seed=seed) for seed in range(100)]
    slots = slots_for(Nodes(*MIXED), resources, specs, read=lambda spec: (BASE, LENGTHS))
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
        slots_for(Nodes(Node("K80", 2, 1)), Resources(gpus="packed"), SPECS)


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

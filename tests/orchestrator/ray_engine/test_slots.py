"""Trials go where there is room, as nodes come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.ray_engine.slots import ANY, REFRESH_S, Node, Share, Slots, chosen_kinds
from tests.builders import Clock
from tests.examples import each
from trials.errors import ConfigError

GPUS = [Node("A100", 16, 2), Node("A100", 16, 2), Node("T4", 8, 4), Node("cpu", 32, 0)]


@given(
    nodes=st.lists(st.builds(Node, st.sampled_from(["cpu", "A100", "T4"]), st.integers(0, 8), st.integers(0, 4))),
    share=st.builds(Share, st.integers(1, 4), st.sampled_from([0.0, 0.25, 0.4, 0.6, 1.0])),
)
def test_trials_never_ask_more_of_a_kind_than_its_nodes_have_each(nodes: list[Node], share: Share) -> None:
    kinds = sorted({node.kind for node in nodes}) or [ANY]
    slots, taken = Slots(dict.fromkeys(kinds, share), lambda: nodes), list[str]()
    while (kind := slots.free_kind()) is not None:
        slots.take(str(len(taken)), kind)
        taken.append(kind)
    for kind in kinds:
        room = [node.room(share) for node in nodes if node.kind == kind]
        assert taken.count(kind) == sum(room)
        assert all(
            n * share.cpus <= node.cpus for n, node in zip(room, [x for x in nodes if x.kind == kind], strict=True)
        )


def test_the_next_trial_goes_to_the_kind_with_most_room_and_not_across_two_nodes() -> None:
    for share, n in ((0.6, 4), (0.4, 8), (1.0, 4)):  # 0.6 twice is no share of two GPUs, whatever their sum
        assert Node("A100", 64, 4).room(Share(1, share)) == n
    slots = Slots({"A100": Share(1, 1.0), "T4": Share(1, 0.5)}, lambda: GPUS)
    assert slots.total() == 4 + 8
    assert slots.free_kind() == "T4"


def test_a_place_that_is_given_back_is_free_again_and_with_a_concurrency_trials_are_asked_for_beyond_the_room() -> None:
    slots = Slots({ANY: Share(16)}, lambda: [Node("cpu", 16, 0)])
    slots.take("one", ANY)
    assert slots.free_kind() is None
    slots.give_back("one")
    slots.give_back("one")
    assert slots.free_kind() == ANY
    slots = Slots({ANY: Share()}, lambda: [Node("cpu", 1, 0)], concurrency=3)
    for n in range(3):
        kind = slots.free_kind()
        assert kind is not None
        slots.take(str(n), kind)
    assert slots.free_kind() is None


def test_nodes_that_come_and_go_are_noticed() -> None:
    nodes, clock = [Node("cpu", 2, 0)], Clock()
    slots = Slots({ANY: Share()}, lambda: nodes, clock=clock)
    assert slots.total() == 2
    nodes.append(Node("cpu", 4, 0))
    clock.now = REFRESH_S
    assert slots.total() == 6
    nodes.clear()
    clock.now = 2 * REFRESH_S
    assert slots.free_kind() is None


@each(
    "device, gpus, kinds",
    [
        ("any", False, (ANY,)),
        ("any", True, ("A100", "T4")),
        ("one", True, ("T4",)),
        ("one", False, ("A100",)),
        ("T4", True, ("T4",)),
        ("cpu", False, ("cpu",)),
    ],
)
def test_a_sweep_says_which_kinds_of_node_its_trials_go_to(device: str, gpus: bool, kinds: tuple[str, ...]) -> None:
    nodes = [*GPUS, Node("T4", 8, 4)]
    assert chosen_kinds(nodes[:4] if kinds != ("A100",) else nodes[:2], device, gpus=gpus) == kinds
    with pytest.raises(ConfigError, match=r"resources.device: H100: the cluster has A100, T4\. Name one of these"):
        chosen_kinds(GPUS, "H100", gpus=True)


def test_who_launches_is_told_how_many_run_together() -> None:
    quarter, none, each_kind = (
        Share(1, 0.25),
        "1 node without a GPU gets none",
        {"A100": Share(1, 1.0), "T4": Share(1, 0.5)},
    )
    told: list[tuple[dict[str, Share], str]] = [
        ({ANY: Share()}, "72 trials at a time"),
        ({"A100": quarter}, f"16 trials at a time, 0.25 of a GPU each on A100; {none}"),
        (each_kind, f"12 trials at a time, 1 GPU each on A100, 0.5 of a GPU each on T4; {none}"),
        (
            {"T4": Share(8, 1.0)},
            f"1 trial at a time, 1 GPU each on T4; {none}; 3 GPUs idle for lack of cores: lower resources.cpus",
        ),
    ]
    assert [Slots(shares, lambda: GPUS).described() for shares, _ in told] == [said for _, said in told]
    assert [GPUS[0].room(share) for share in (Share(1), Share(3), Share(1, 0.125), Share(1, 1.0))] == [16, 5, 16, 2]

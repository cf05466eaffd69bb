"""A GPU is shared by as many trials as fit by their measured memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cluster import Cluster, Share
from orchestrator.packing import USABLE, hungriest, share_of, share_of_gpu
from orchestrator.sweep import Resources
from tests.builders import make_spec
from trials.errors import ConfigError
from trials.pilot import Footprint

ON_GPU = Cluster(cpus=16, gpus=2, dashboard="", token_hint="")


@given(used=st.integers(1, 200_000), total=st.integers(1, 200_000), most=st.integers(1, 64))
def test_together_they_never_ask_for_more_than_the_gpu_nor_take_more_than_its_memory(
    used: int, total: int, most: int
) -> None:
    share = share_of_gpu(Footprint(used, total), most)
    together = int(1 / share + 1e-9)
    assert 1 <= together <= most
    assert together == 1 or together * used <= USABLE * total


def test_a_trial_that_takes_most_of_a_gpu_has_it_alone() -> None:
    assert share_of_gpu(Footprint(50, 100), most=8) == 1.0


def test_a_small_trial_shares_it_with_as_many_as_there_are_cores_for() -> None:
    assert share_of_gpu(Footprint(1, 1000), most=8) == 0.125


def test_the_pilot_is_the_trial_of_a_shape_that_learns_most() -> None:
    some = {"strategy": "layers", "layers": (0, 1), "embeddings": True}
    specs = [make_spec(freeze=some), make_spec(seed=3), make_spec(seed=4, freeze=some)]
    assert hungriest(specs) == [specs[1]]


def test_other_batch_sizes_lengths_and_precisions_have_pilots_of_their_own() -> None:
    changes: list[dict[str, object]] = [{}, {"optim": {"batch_size": 64}}, {"max_length": 64}, {"precision": "bf16"}]
    specs = [make_spec(**change) for change in changes]
    assert set(hungriest(specs)) == set(specs)


def test_without_packing_a_trial_gets_what_the_sweep_says() -> None:
    assert share_of(ON_GPU, Resources(cpus=2, gpus=0.5), []) == Share(2, 0.5)


def test_packing_without_a_gpu_is_refused() -> None:
    with pytest.raises(ConfigError, match="the cluster has 2 and 0"):
        share_of(Cluster(2, 0, "", ""), Resources(gpus="packed"), [])


@pytest.mark.parametrize(("share", "slots"), [(Share(1), 16), (Share(3), 5), (Share(1, 0.125), 16), (Share(1, 1.0), 2)])
def test_the_slots_of_a_cluster_are_bound_by_cores_and_gpus(share: Share, slots: int) -> None:
    assert ON_GPU.slots(share) == slots

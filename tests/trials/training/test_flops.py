"""Counted operations: those that torch counts in a real step, for every family, whatever is frozen or cached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.examples import each
from tests.trials.conftest import CPU, TrialMaker, save_tiny_model
from trials.cache.encoding import encode_for
from trials.models.cut import section
from trials.models.family import MODEL_FAMILIES
from trials.models.load import family_of
from trials.prefix.rule import prefix_depth
from trials.prefix.states import take_prefix
from trials.record import EpochRecord
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.batching import collate
from trials.training.freeze_course import FreezeSchedule
from trials.training.new_training import new_model, new_training, train_subset

pytestmark = pytest.mark.usefixtures("cache")

FREEZES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "two layers and embeddings": {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}},
    "a cached prefix": {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}, "frozen_dropout": False},
    "embeddings": {"freeze": {"strategy": "none", "embeddings": True}},
    "everything, cached": {"freeze": {"strategy": "all_encoder", "embeddings": True}, "frozen_dropout": False},
    "the last layers": {"freeze": {"strategy": "last_k", "depth": 2}},
    "adapters": {"lora": {"rank": 2}, "freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}},
    "adapters everywhere": {"lora": {"rank": 2, "targets": "linear", "layers": "all"}},
    "gradual unfreezing": {"freeze": "all_encoder", "thaw_every": 1, "optim": {"epochs": 3}},
}


def torchs_count(run: Callable[[], object]) -> int:
    """What torch counts; its CPU kernels hide the products of attention, so those are called one by one."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        run()
    return int(counter.get_total_flops())


def counted_and_torchs(spec: TrialSpec) -> tuple[float, int]:
    """Operations of a whole training by our count and by torch's."""
    data = encode_for(spec)
    loaded, subset = new_model(spec, len(data.labels), CPU), train_subset(spec, data.train)
    examples, model = data.train.examples, cast("Any", loaded.model)
    below = section(getattr(model, model.base_model_prefix), family_of(spec.model), 0, prefix_depth(spec))
    prefix = take_prefix(spec, loaded, data, subset.tolist(), CPU)
    training = new_training(spec, loaded, prefix.data, subset, CPU)
    unfreezing = FreezeSchedule(spec, training)
    steps = torchs_count(lambda: unfreezing.train_to(training.n_steps))
    once = torchs_count(lambda: [below(**collate([examples[i]], 0, CPU).inputs) for i in subset])
    return prefix.train_flops + training.flops, steps + (once if prefix.depth else 0)


@each("family", MODEL_FAMILIES, quick=2)
def test_count_is_torchs_for_every_family(family: str, make_trial: TrialMaker) -> None:
    counted, torchs = counted_and_torchs(make_trial(family, train_size=8, **FREEZES["two layers and embeddings"]))
    assert counted == torchs


@each("frozen", FREEZES, quick=3)
def test_count_is_torchs_whatever_is_frozen(frozen: str, make_trial: TrialMaker) -> None:
    counted, torchs = counted_and_torchs(make_trial("bert", train_size=8, **FREEZES[frozen]))
    assert counted == torchs


def test_count_is_torchs_for_texts_and_for_an_unregistered_architecture(
    make_trial: TrialMaker, texts: Path, tmp_path: Path
) -> None:
    text = make_trial("bert", task="mrpc", data={"folder": str(texts)}, train_size=4)
    freeze = {"strategy": "first_k", "depth": 2}
    other = make_trial(
        model=str(save_tiny_model("layoutlmv3", tmp_path / "model", positions=40)), freeze=freeze, train_size=4
    )
    for spec in (text, other):
        counted, torchs = counted_and_torchs(spec)
        assert counted == torchs


def flops_of(records: list[EpochRecord]) -> list[float | None]:
    return [record.training_flops for record in records]


def test_every_trial_counts_its_own_prefix_whoever_computed_it(make_trial: TrialMaker) -> None:
    spec, shallow = (
        make_trial(freeze={"strategy": "first_k", "depth": depth, "embeddings": True}, frozen_dropout=False)
        for depth in (3, 2)
    )
    list(run_trial(shallow, device=CPU))
    first, again = list(run_trial(spec, device=CPU)), list(run_trial(spec, device=CPU))
    assert flops_of(first) == flops_of(again)
    assert (flops_of(first)[0] or 0) > (flops_of(first)[1] or 0) > 0  # the prefix counts once

"""The pieces of the training loop: learning rate, parameter groups, loss, evaluation, batches, streams, subsets."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_linear_schedule_with_warmup

from tests.trials.conftest import TrialMaker
from trials.cache.encoding import encode_for
from trials.hardware.device import PeakMemory
from trials.models.family import StepMode
from trials.models.load import load_model
from trials.spec import OptimSpec
from trials.tasks.task import NO_PREDICTION, Example, Split
from trials.training.batching import Batch, batches_by_length, batches_of_like_length, shuffled_batches
from trials.training.final_scores import BestEpoch
from trials.training.loop import EvaluatedSplit, evaluate, lr_share, new_optimizer
from trials.training.new_training import new_model, new_training, train_subset

CPU = torch.device("cpu")
SIZES = st.integers(1, 40)


def example(n: int, label: int = 0) -> Example:
    """A sentence of `n` words, one subword each."""
    return Example(np.arange(1, n + 1), np.full(n, label), gold=np.full(n, label), at=np.arange(n))


@given(n_steps=st.integers(2, 60), warmup=st.floats(0, 0.9))
def test_the_schedule_is_transformers_linear_one(n_steps: int, warmup: float) -> None:
    n_warmup = int(np.ceil(warmup * n_steps))
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = get_linear_schedule_with_warmup(optimizer, n_warmup, n_steps)
    for step in range(n_steps):
        assert lr_share(step, n_steps, warmup) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()


def test_biases_and_layer_norms_do_not_decay_and_the_head_has_its_rate(make_trial: TrialMaker) -> None:
    loaded = load_model(make_trial().model, head="tokens", n_outputs=3, dropout=None, init=torch.Generator())
    loaded.parts.embeddings.requires_grad_(False)
    optimizer = new_optimizer(loaded, OptimSpec(lr=1e-3, head_lr=1e-2, weight_decay=0.5))
    names = {id(p): name for name, p in loaded.model.named_parameters()}
    seen = {names[id(p)]: (g["peak_lr"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    assert set(seen) == {name for name in names.values() if "embeddings" not in name}
    for name, (lr, decay) in seen.items():
        assert lr == (1e-2 if name.startswith("classifier") else 1e-3)
        assert decay == (0.0 if name.endswith("bias") or "norm" in name.lower() else 0.5)


@given(n=SIZES, batch_size=SIZES, seed=st.integers(0, 99))
def test_an_epoch_of_batches_holds_every_sentence_once(n: int, batch_size: int, seed: int) -> None:
    batches = shuffled_batches(n, batch_size, np.random.default_rng(seed))
    for _ in range(2):
        epoch = [next(batches) for _ in range(-(-n // batch_size))]
        assert sorted(np.concatenate(epoch)) == list(range(n))
        assert all(len(batch) == batch_size for batch in epoch[:-1])


def test_batches_of_like_length_pad_little_and_differ_from_epoch_to_epoch() -> None:
    lengths = np.random.default_rng(0).geometric(0.05, 800).tolist()  # like sentences: many short ones, a few long
    kinds = (
        shuffled_batches(800, 16, np.random.default_rng(1)),
        batches_of_like_length(lengths, 16, np.random.default_rng(1)),
    )
    epochs = [[[next(kind) for _ in range(50)] for _ in range(2)] for kind in kinds]
    padded = [sum(len(batch) * max(lengths[i] for i in batch) for batch in first) / sum(lengths) for first, _ in epochs]
    assert padded[0] > 2
    assert padded[1] < 1.4
    assert [set(batch) for batch in epochs[1][0]] != [set(batch) for batch in epochs[1][1]]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=50), st.integers(1, 8))
def test_evaluation_batches_hold_every_example_once_longest_first(lengths: list[int], batch_size: int) -> None:
    batches = list(batches_by_length([example(n) for n in lengths], batch_size))
    order = [i for batch in batches for i in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    assert max(map(len, batches)) <= batch_size


@pytest.mark.parametrize("family", ["bert", "deberta-v2"])
def test_a_split_is_predicted_in_its_order_whatever_stands_beside_a_sentence(
    family: str, make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trials.training.loop.EVAL_BATCH", 5)
    spec = make_trial(family, max_length=16)
    data = encode_for(spec)
    loaded = new_model(spec, len(data.labels), CPU)
    training = new_training(spec, loaded, data, train_subset(spec, data.train), CPU)
    whole, alone = evaluate(training, data.dev), [evaluate(training, Split([e])) for e in data.dev.examples]
    assert np.array_equal(whole.predicted, np.concatenate([found.predicted for found in alone]))
    expected = np.concatenate([found.probability for found in alone])
    assert whole.probability == pytest.approx(expected, abs=1e-5, nan_ok=True)
    assert (whole.predicted == NO_PREDICTION).sum() == np.isnan(whole.probability).sum() > 0
    assert [len(example.gold) for example in data.dev.examples] == np.diff(
        [*data.dev.starts, len(data.dev.gold)]
    ).tolist()


@pytest.mark.parametrize("mode", ["rows", "padded"])
def test_an_evaluation_that_does_not_fit_runs_in_halves(
    mode: StepMode, make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, whole = make_trial(), Batch.logits
    data, loaded = encode_for(spec), new_model(spec, len(encode_for(spec).labels), CPU, mode=mode)
    training = new_training(spec, loaded, data, train_subset(spec, data.train), CPU, mode=mode)
    expected, tried = evaluate(training, data.dev), list[int]()

    def small(batch: Batch, model: torch.nn.Module) -> torch.Tensor:
        tried.append(len(batch.lengths))
        if tried[-1] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(batch, model)

    monkeypatch.setattr(Batch, "logits", small)
    found = evaluate(training, data.dev)
    assert tried == [12, 6, 3, 3, 6, 3, 3]
    assert found.predicted.tolist() == expected.predicted.tolist()
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)


def test_the_best_weights_are_replaced_in_place_and_by_better_ones_only(make_trial: TrialMaker) -> None:
    loaded = load_model(make_trial().model, head="tokens", n_outputs=3, dropout=0.0, init=torch.Generator())
    best, dev = BestEpoch(loaded), EvaluatedSplit(0.0, np.zeros(1), np.zeros(1))
    best.update(0.5, dev)
    places = [weight.data_ptr() for weight in best.weights]
    first = [weight.clone() for weight in best.weights]
    for score, is_kept in ((0.4, True), (0.5, True), (0.6, False)):  # of equal ones the earliest
        with torch.no_grad():
            for parameter in best.trained:
                parameter.add_(1.0)
        best.update(score, dev)
        assert [weight.data_ptr() for weight in best.weights] == places
        assert all(map(torch.equal, best.weights, first)) == is_kept


def test_peak_memory_is_of_the_trial_not_of_the_process() -> None:
    before = PeakMemory(CPU)
    with mmap.mmap(-1, 64 << 20) as block:  # straight from the kernel: an allocator may keep what it frees
        for _ in range(64):
            block.write(b"1" * (1 << 20))
        high = before.process_bytes()
    if not before._is_reset:
        pytest.skip("this kernel does not let a process reset its peak memory")
    assert PeakMemory(CPU).process_bytes() < high - (32 << 20)

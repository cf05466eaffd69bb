"""Batches are the same on every way to the device, and nothing on the way or in a step waits for it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from tests.trials.conftest import TrialMaker, start
from trials.models.family import MODEL_FAMILIES
from trials.models.load import load_model
from trials.tasks.task import Example
from trials.training import device_loader
from trials.training.batching import Batch, collate, laid_end_to_end, takes_square_mask
from trials.training.device_loader import DeviceLoader
from trials.training.loop import train_steps
from trials.training.step_rule import RESIDENT_BYTES

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def sentence(n: int, *, types: bool = False, states: bool = False) -> Example:
    numbers = np.arange(1, n + 1)
    hidden = torch.arange(4.0 * n).reshape(n, 4) + 1 if states else None
    return Example(numbers, numbers % 3, numbers % 3, np.arange(n), numbers % 2 if types else None, hidden)


def text(n: int, label: float = 0.5) -> Example:
    return Example(np.arange(1, n + 1), np.array([label]), np.array([label]), np.zeros(1, np.int64))


def equal(one: Batch, other: Batch) -> bool:
    pairs = list(zip(one.tensors, other.tensors, strict=True))
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in pairs) and one.square == other.square


@given(lengths=LENGTHS, types=st.booleans(), states=st.booleans(), order=st.randoms(use_true_random=False))
def test_rows_on_the_device_are_the_batches_of_collate(
    lengths: list[int], types: bool, states: bool, order: Any
) -> None:
    examples = [sentence(n, types=types, states=states) for n in lengths]
    chosen = [order.randrange(len(examples)) for _ in range(5)]
    for resident, most in ((False, RESIDENT_BYTES), (True, RESIDENT_BYTES), (True, 0)):  # states do not fit into 0
        with patch.object(device_loader, "RESIDENT_BYTES", most):
            loader = DeviceLoader(examples, 9, CPU, resident=resident)
        for group in (chosen, np.array(chosen)):
            (batch,) = loader.batches([group])
            assert equal(batch, collate([examples[i] for i in chosen], 9, CPU))


@given(lengths=LENGTHS, types=st.booleans(), states=st.booleans(), order=st.randoms(use_true_random=False))
def test_rows_end_to_end_are_those_of_the_examples(lengths: list[int], types: bool, states: bool, order: Any) -> None:
    examples = (
        [sentence(n, types=types, states=states) for n in lengths] if order.random() < 0.7 else [*map(text, lengths)]
    )
    chosen = [order.randrange(len(examples)) for _ in range(5)]
    (batch,) = DeviceLoader(examples, 9, CPU, first_position=2).batches([chosen])
    expected = laid_end_to_end([examples[i] for i in chosen], 2)
    assert equal(batch, expected)
    assert batch.lengths == expected.lengths == tuple(len(examples[i].ids) for i in chosen)


@given(lengths=LENGTHS, label=st.sampled_from([0.5, 1]))
def test_the_one_label_of_a_text_is_not_padded(lengths: list[int], label: float) -> None:
    examples = [text(n, label) for n in lengths]
    for resident in (False, True):
        for multiple in (1, 16):
            (batch,) = DeviceLoader(examples, 99, CPU, resident=resident, multiple=multiple).batches(
                [range(len(examples))]
            )
            assert batch.labels.tolist() == [[label]] * len(examples)
            assert batch.mask is not None
            assert torch.equal(batch.mask, (batch.ids != 99).long())


@given(lengths=LENGTHS, types=st.booleans(), states=st.booleans(), multiple=st.sampled_from([4, 16]))
def test_a_length_is_rounded_up_but_never_beyond_the_longest_example(
    lengths: list[int], types: bool, states: bool, multiple: int
) -> None:
    examples = [sentence(n, types=types, states=states) for n in lengths]
    ways = [DeviceLoader(examples, 9, CPU, resident=resident, multiple=multiple) for resident in (False, True)]
    (one,), (other,) = (loader.batches([[0]]) for loader in ways)
    assert equal(one, other)
    assert one.ids.shape[1] == one.labels.shape[1] == min(-(-lengths[0] // multiple) * multiple, max(lengths))
    assert one.mask is not None
    assert one.mask.sum() == lengths[0]
    assert all(torch.equal(a[:, : lengths[0]], b) for a, b in zip(one.tensors, collate(examples[:1], 9, CPU).tensors))  # noqa: B905


SQUARE = [family for family in MODEL_FAMILIES if MODEL_FAMILIES[family].square_mask]

IDS = torch.tensor([[2, 7, 9, 11, 12, 3], [2, 8, 3, 0, 0, 0], [2, 3, 0, 0, 0, 0]])


@each("head", ["tokens", "text"])
@each("given_as", ["ids", "states"], quick=1)
@each("family", SQUARE, quick=2)
@torch.no_grad()
def test_a_square_mask_gives_the_logits_of_a_flat_one(
    family: str, given_as: str, head: Any, make_trial: TrialMaker
) -> None:
    init = torch.Generator().manual_seed(0)
    loaded = load_model(make_trial(family).model, head=head, n_outputs=3, dropout=0.0, init=init, mode="graphs")
    model = loaded.model.eval()
    states = model.get_input_embeddings()(IDS) if given_as == "states" else None  # type: ignore[operator]
    assert takes_square_mask(model)
    for ids in (slice(None), slice(0, 1)):  # with padding and without any
        mask = (IDS[ids] != 0).long()
        flat = Batch(IDS[ids], mask, mask, None, None if states is None else states[ids])
        square = replace(flat, square=True)
        shown = mask.bool() if head == "tokens" else slice(None)
        assert square.inputs["attention_mask"].shape == (len(mask), 1, 6, 6)
        torch.testing.assert_close(square.logits(model)[shown], flat.logits(model)[shown], atol=1e-6, rtol=1e-5)


@needs_gpu
@each("states", [False, True])
@each("resident", [False, True])
def test_batches_reach_a_gpu_whole(resident: bool, states: bool) -> None:
    examples = [sentence(n, states=states) for n in np.random.default_rng(0).integers(1, 400, 256)]
    order = [np.random.default_rng(n).integers(0, 256, 32) for n in range(200)]
    loader = DeviceLoader(examples, 9, GPU, resident=resident)
    for chosen, batch in zip(order, loader.batches(order), strict=True):
        assert equal(batch.each(torch.Tensor.cpu), collate([examples[i] for i in chosen], 9, CPU))


@needs_gpu
@pytest.mark.parametrize("family", ["distilbert", "bert", "roberta"])
def test_on_a_gpu_the_host_waits_once_for_many_steps(family: str, make_trial: TrialMaker) -> None:
    training = start(make_trial(family), GPU)
    train_steps(training, 2)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train_steps(training, 8)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert sum("synchronizing" in str(warning.message) for warning in caught) == 1

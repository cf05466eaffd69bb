"""A row of sentences gives the numbers of the padded batch, in every family whose attention lets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.examples import each
from tests.trials.conftest import TrialMaker
from trials.cache.encoding import encode_for
from trials.models.family import MODEL_FAMILIES
from trials.models.padding_free import Spans, attend, attending_within
from trials.prefix.states import take_prefix
from trials.spec import TrialSpec
from trials.training.batching import collate, laid_end_to_end
from trials.training.freeze_course import train_mode
from trials.training.loop import Training, mean_loss, one_step, train_steps
from trials.training.new_training import new_model, new_training, train_subset

CPU = torch.device("cpu")
ROWS = [name for name in MODEL_FAMILIES if MODEL_FAMILIES[name].padding_free]
FREEZES: dict[str, Any] = {
    "a cached prefix": {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}, "frozen_dropout": False},
    "nothing": {},
}


def both(spec: TrialSpec) -> tuple[Training, Training]:
    """A training on rows, and one that starts from the same weights on padded batches of the same order."""
    trainings = []
    for is_padded in (False, True):
        data = encode_for(spec)
        loaded = new_model(spec, len(data.labels), CPU, mode="padded" if is_padded else "rows")
        subset = train_subset(spec, data.train)
        data = take_prefix(spec, loaded, data, subset.tolist(), CPU).data
        trainings.append(new_training(spec, loaded, data, subset, CPU))
        train_mode(loaded.model, loaded.parts, spec.freeze, frozen_dropout=spec.frozen_dropout)
    return trainings[0], trainings[1]


@each(
    "task, family",
    [*(("pos", name) for name in ROWS), *(("mrpc", name) for name in ROWS if not MODEL_FAMILIES[name].causal)],
    quick=len(ROWS),
)
def test_loss_and_gradients_are_those_of_the_padded_batch(
    task: str, family: str, make_trial: TrialMaker, texts: Path
) -> None:
    spec = make_trial(family, task=task, dropout=0.0, **({"data": {"folder": str(texts)}} if task == "mrpc" else {}))
    loaded, examples = new_model(spec, 4, CPU), encode_for(spec).train.examples[:6]
    losses, gradients = [], []
    assert loaded.first_position is not None
    for batch in (laid_end_to_end(examples, loaded.first_position), collate(examples, 0, CPU)):
        loss = mean_loss(loaded.model.train(), batch)
        loaded.model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        gradients.append({name: p.grad.clone() for name, p in loaded.model.named_parameters() if p.grad is not None})
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for name, gradient in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], gradient, atol=1e-6, rtol=1e-4)


@each("family", ROWS, quick=1)
@each("frozen", FREEZES, quick=1)
def test_twenty_steps_have_the_losses_of_padded_batches(family: str, frozen: str, make_trial: TrialMaker) -> None:
    optim = {"lr": 1e-3, "batch_size": 4, "epochs": 4}
    rows, padded = both(make_trial(family, dropout=0.0, optim=optim, **FREEZES[frozen]))
    assert (rows.padding_free, padded.padding_free) == (True, False)
    assert train_steps(rows, 20) == pytest.approx(train_steps(padded, 20), abs=1e-5)


@pytest.mark.parametrize("accumulation", [3, 9])
def test_a_row_in_parts_takes_the_same_step(accumulation: int, make_trial: TrialMaker) -> None:
    whole, parts = (both(make_trial("bert", dropout=0.0))[0] for _ in range(2))
    parts.accumulation = accumulation
    losses = [one_step(training, next(training.device_batches)).item() for training in (whole, parts)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def row(lengths: tuple[int, ...], key_heads: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    n = sum(lengths)
    return torch.randn(1, 2, n, 8), torch.randn(1, key_heads, n, 8), torch.randn(1, key_heads, n, 8)


def seen(lengths: tuple[int, ...], window: int, causal: bool) -> torch.Tensor:
    """(subwords, subwords) what each one of a row may attend to, written down from the definition."""
    places = [(sentence, i) for sentence, n in enumerate(lengths) for i in range(n)]
    return torch.tensor(
        [
            [s == t and (not window or abs(i - j) < window) and (not causal or j <= i) for t, j in places]
            for s, i in places
        ]
    )


@each("window", [0, 3, 50])
@each("causal", [False, True])
@each("key_heads", [1, 2])
def test_attention_is_that_of_a_mask_between_sentences(window: int, causal: bool, key_heads: int) -> None:
    lengths = (4, 1, 9)
    query, key, value = row(lengths, key_heads=key_heads)
    with attending_within(Spans.from_lengths(lengths, 0)):
        found, _ = attend(torch.nn.Identity(), query, key, value, sliding_window=window or None, is_causal=causal)
    keys, values = (x.repeat_interleave(2 // key_heads, 1) for x in (key, value))
    expected = scaled_dot_product_attention(query, keys, values, attn_mask=seen(lengths, window, causal))
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-6, rtol=1e-5)


@each("scale", [None, 0.3])
def test_with_dropout_attention_drops_and_returns_what_torchs_own_does(scale: float | None) -> None:
    lengths = (4, 1, 9)
    rows = [x.requires_grad_() for x in row(lengths)]

    def torchs_own() -> torch.Tensor:
        parts = [
            scaled_dot_product_attention(q, k, v, dropout_p=0.4, scale=scale)
            for q, k, v in zip(*(x.split(lengths, dim=2) for x in rows), strict=True)
        ]
        return torch.cat(parts, dim=2)

    torch.manual_seed(3)
    expected = torchs_own().transpose(1, 2)
    torch.manual_seed(3)
    with attending_within(Spans.from_lengths(lengths, 0)):
        found, _ = attend(torch.nn.Identity(), rows[0], rows[1], rows[2], dropout=0.4, scaling=scale)
    gradients = [torch.autograd.grad(output.square().sum(), rows) for output in (found, expected)]
    torch.testing.assert_close([found, *gradients[0]], [expected, *gradients[1]], atol=1e-5, rtol=1e-4)

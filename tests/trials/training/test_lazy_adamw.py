"""Lazy AdamW is AdamW on the rows a batch looks up, and nothing on all others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.trials.conftest import VOCABULARY, TrialMaker
from trials.models.family import MODEL_FAMILIES
from trials.models.load import load_model
from trials.training.lazy_adamw import LAZY_ROWS, LazyAdamW, clip_grad_norm, make_lazy

SIZES = st.integers(1, 12)
ROWS = 40  # of the tables here, which `small_lazy` makes lazy


def small_lazy(model: nn.Module) -> list[nn.Embedding]:
    return make_lazy(model, above=ROWS - 1)


def table(rows: int = ROWS, width: int = 4, *, seed: int = 0, padding_idx: int | None = None) -> nn.Embedding:
    weights = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    return nn.Embedding(rows, width, padding_idx=padding_idx, _weight=weights)


def gradient_of(module: nn.Embedding) -> torch.Tensor:
    assert module.weight.grad is not None
    return module.weight.grad


def look_up(module: nn.Embedding, ids: Sequence[int], seed: int = 0) -> None:
    """A backward pass through a loss in which every lookup has a weight of its own."""
    vectors = module(torch.tensor(list(ids), dtype=torch.int64))
    (vectors * torch.randn(vectors.shape, generator=torch.Generator().manual_seed(seed))).sum().backward()


def lazy_and_dense(rows: int = ROWS, width: int = 4, padding_idx: int | None = None) -> tuple[nn.Embedding, ...]:
    lazy, dense = (table(rows, width, padding_idx=padding_idx) for _ in range(2))
    assert make_lazy(lazy, above=rows - 1) == [lazy]
    return lazy, dense


# --- Which tables


@pytest.mark.parametrize(("rows", "lazy"), [(LAZY_ROWS, False), (LAZY_ROWS + 1, True)])
def test_only_tables_of_more_rows_than_positions_need_are_lazy(rows: int, lazy: bool) -> None:
    module = table(rows)
    assert make_lazy(module) == ([module] if lazy else [])
    look_up(module, [3, 1, 3])
    assert gradient_of(module).is_sparse == lazy


def test_frozen_and_tied_tables_and_those_that_count_their_rows_stay_dense() -> None:
    frozen, tied, counting = table(), table(), table()
    frozen.requires_grad_(False)
    counting.scale_grad_by_freq = True
    head = nn.Linear(4, ROWS, bias=False)
    head.weight = tied.weight
    assert small_lazy(nn.ModuleList([frozen, tied, counting, head])) == []
    head(tied(torch.tensor([1]))).sum().backward()
    assert not gradient_of(tied).is_sparse


def test_a_table_in_two_places_of_a_model_is_one_table() -> None:
    shared = table()
    model = nn.ModuleDict({"first": shared, "second": shared})
    assert small_lazy(model) == [shared]
    (shared(torch.tensor([1, 2])).sum() + shared(torch.tensor([2])).sum()).backward()
    assert gradient_of(shared).is_coalesced()
    assert gradient_of(shared).values().tolist() == [[1.0] * 4, [2.0] * 4]


@pytest.mark.parametrize("family", list(MODEL_FAMILIES))
def test_every_familys_word_table_and_nothing_else_gets_a_sparse_gradient(family: str, make_trial: TrialMaker) -> None:
    model: Any = load_model(
        make_trial(family).model, head="tokens", n_outputs=3, dropout=0.0, init=torch.Generator()
    ).model
    assert make_lazy(model, above=len(VOCABULARY) - 1) == [model.get_input_embeddings()]
    model(input_ids=torch.tensor([[2, 5, 5, 9, 3]])).logits.square().sum().backward()
    sparse = [p for p in model.parameters() if p.grad is not None and p.grad.is_sparse]
    assert [id(p) for p in sparse] == [id(model.get_input_embeddings().weight)]
    assert gradient_of(model.get_input_embeddings()).indices().tolist() == [[2, 3, 5, 9]]


# --- The rule


@given(
    rows=st.integers(1, 12),
    width=SIZES,
    lr=st.floats(1e-6, 1e-2),
    decay=st.floats(0, 0.5),
    beta1=st.floats(0, 0.95),
    beta2=st.floats(0.9, 0.9999),
    fused=st.booleans(),
)
def test_it_is_adamw_where_every_row_is_looked_up(
    rows: int, width: int, lr: float, decay: float, beta1: float, beta2: float, fused: bool
) -> None:
    lazy, dense = lazy_and_dense(rows, width)
    settings: dict[str, Any] = {"lr": lr, "betas": (beta1, beta2), "weight_decay": decay, "fused": fused}
    optimizers = (LazyAdamW([lazy.weight], **settings), torch.optim.AdamW([dense.weight], **settings))
    for step in range(6):
        for module, optimizer in zip((lazy, dense), optimizers, strict=True):
            look_up(module, torch.randperm(rows, generator=torch.Generator().manual_seed(step)).tolist(), seed=step)
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(lazy.weight, dense.weight, rtol=0, atol=1e-6)


@given(batches=st.lists(st.lists(st.integers(0, ROWS - 1), max_size=8), min_size=1, max_size=4))
def test_rows_that_are_not_looked_up_keep_their_weights_and_moments_by_the_bit(batches: list[list[int]]) -> None:
    lazy = lazy_and_dense()[0]
    optimizer = LazyAdamW([lazy.weight], lr=1e-2, weight_decay=0.1)
    look_up(lazy, range(ROWS))
    optimizer.step()
    for ids in batches:
        optimizer.zero_grad()
        moments = [optimizer.state[lazy.weight][key] for key in ("exp_avg", "exp_avg_sq")]
        before = [t.detach().clone() for t in (lazy.weight, *moments)]
        look_up(lazy, ids, seed=1)
        optimizer.step()
        for was, now in zip(before, (lazy.weight, *moments), strict=True):
            changed = (was != now).any(dim=1)
            assert changed.nonzero().flatten().tolist() == sorted(set(ids))


def test_a_row_moves_by_the_sum_of_its_lookups() -> None:
    lazy, dense = lazy_and_dense()
    look_up(lazy, [7, 3, 7, 7])
    look_up(dense, [7, 3, 7, 7])
    LazyAdamW([lazy.weight], weight_decay=0.1).step()
    torch.optim.AdamW([dense.weight], weight_decay=0.1).step()
    torch.testing.assert_close(lazy.weight[[3, 7]], dense.weight[[3, 7]], rtol=0, atol=1e-6)


def test_the_bias_correction_counts_the_steps_of_the_table_and_not_those_of_the_row() -> None:
    lazy = lazy_and_dense()[0]
    before = lazy.weight.detach().clone()
    optimizer = LazyAdamW([lazy.weight], lr=1e-3, weight_decay=0.0)
    for row in (1, 2, 3):
        optimizer.zero_grad()
        look_up(lazy, [row])
        optimizer.step()
    moved = (lazy.weight.detach() - before).abs().amax(dim=1)
    factors = [0.1 / (1 - 0.9**t) * ((1 - 0.999**t) / 0.001) ** 0.5 for t in (1, 2, 3)]
    assert moved[[1, 2, 3]].tolist() == pytest.approx([1e-3 * f for f in factors], rel=1e-3)


def test_the_padding_row_never_moves() -> None:
    lazy = lazy_and_dense(padding_idx=0)[0]
    before = lazy.weight.detach().clone()
    optimizer = LazyAdamW([lazy.weight], weight_decay=0.1)
    for ids in ([0, 0, 5], [0]):  # the second batch has no gradient at all
        look_up(lazy, ids)
        optimizer.step()
        optimizer.zero_grad()
    assert (lazy.weight != before).any(dim=1).nonzero().flatten().tolist() == [5]


@pytest.mark.parametrize("fused", [True, False])
def test_dense_parameters_beside_a_table_move_as_adamw_moves_them_by_the_bit(fused: bool) -> None:
    beside = nn.Linear(4, 3)
    models = [nn.Sequential(module, copy.deepcopy(beside)) for module in lazy_and_dense()]
    for model, kind in zip(models, (LazyAdamW, torch.optim.AdamW), strict=True):
        optimizer = kind([{"params": list(model.parameters()), "peak_lr": 0.5}], lr=1e-2, fused=fused)
        model(torch.tensor([4, 4, 9])).square().sum().backward()
        optimizer.step()
        assert optimizer.param_groups[0]["peak_lr"] == 0.5
    (_, *lazy), (_, *dense) = (list(model.parameters()) for model in models)
    assert all(torch.equal(a, b) for a, b in zip(lazy, dense, strict=True))


@pytest.mark.parametrize("fused", [True, False])
def test_a_loaded_state_goes_on_by_the_bit(fused: bool) -> None:
    lazy = lazy_and_dense()[0]
    optimizer = LazyAdamW([lazy.weight], lr=1e-2, fused=fused)
    look_up(lazy, [1, 2])
    optimizer.step()
    other = copy.deepcopy(lazy)
    resumed = LazyAdamW([other.weight], lr=1.0, fused=fused)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for module, goes_on in ((lazy, optimizer), (other, resumed)):
        goes_on.zero_grad()
        look_up(module, [2, 3])
        goes_on.step()
    assert torch.equal(lazy.weight, other.weight)


def test_a_closure_gives_the_loss_and_the_gradient() -> None:
    lazy = lazy_and_dense()[0]
    before = lazy.weight.detach().clone()

    def closure() -> float:
        look_up(lazy, [6])
        return 2.5

    assert LazyAdamW([lazy.weight]).step(closure) == 2.5
    assert (lazy.weight != before).any(dim=1).nonzero().flatten().tolist() == [6]


@pytest.mark.parametrize("act", [lambda p: torch.optim.AdamW([p]).step(), lambda p: nn.utils.clip_grad_norm_([p], 1)])
def test_torchs_own_step_and_clipping_refuse_a_lazy_tables_gradient(act: Callable[[torch.Tensor], object]) -> None:
    lazy = lazy_and_dense()[0]
    look_up(lazy, [1])
    with pytest.raises((RuntimeError, NotImplementedError), match=r"[Ss]parse"):
        act(lazy.weight)


# --- Clipping


def with_gradients(ids: Sequence[int], module: nn.Embedding, scale: float) -> list[torch.Tensor]:
    """The weight of the table and two others, with gradients; the third has none."""
    look_up(module, ids)
    others = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(1))]
    others[0].grad, others[1].grad = torch.full((3,), scale), torch.full((2, 2), -scale)
    return [others[0], module.weight, *others[1:]]


@given(ids=st.lists(st.integers(0, ROWS - 1), max_size=12), max_norm=st.floats(1e-2, 1e2), scale=st.floats(0, 1e2))
def test_clipping_is_that_of_the_same_gradient_without_gaps(ids: list[int], max_norm: float, scale: float) -> None:
    lazy, dense = (with_gradients(ids, module, scale) for module in lazy_and_dense())
    norm, expected = clip_grad_norm(lazy, max_norm), nn.utils.clip_grad_norm_(dense, max_norm)
    torch.testing.assert_close(norm, expected)
    for ours, theirs in zip(lazy, dense, strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        if ours.grad is not None and theirs.grad is not None:
            torch.testing.assert_close(ours.grad.to_dense(), theirs.grad)


def test_clipping_coalesces_a_gradient_that_is_not() -> None:
    plain = nn.Embedding(ROWS, 4, sparse=True)
    plain(torch.tensor([5, 5])).sum().backward()
    assert not gradient_of(plain).is_coalesced()
    assert clip_grad_norm([plain.weight], 1.0).item() == 4.0  # four times 2, and not eight times 1
    assert gradient_of(plain).to_dense()[5].tolist() == pytest.approx([0.5] * 4)


def test_a_gradient_without_any_sparse_part_is_clipped_by_torch_itself() -> None:
    ours, theirs = (with_gradients([1, 2, 2], table(), 3.0) for _ in range(2))
    assert torch.equal(clip_grad_norm(iter(ours), 1.0), nn.utils.clip_grad_norm_(theirs, 1.0))
    for a, b in zip(ours, theirs, strict=True):
        assert a.grad is b.grad is None or (a.grad is not None and b.grad is not None and torch.equal(a.grad, b.grad))


# --- Scaled losses


def two_tables(scaled: bool, clip: bool, *, first: float = 1.0) -> list[torch.Tensor]:
    """Two steps over the sum of two tables' vectors, the gradients of the first step times `first`."""
    model = nn.ModuleList([table(seed=0), table(seed=1), nn.LayerNorm(4)])
    assert len(small_lazy(model)) == 2
    optimizer = LazyAdamW(model.parameters(), lr=1e-2, fused=True)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    for factor in (first, 1.0):
        vectors = model[2](model[0](torch.tensor([1, 2, 2])) + model[1](torch.tensor([4, 5, 6])))
        scaler.scale((vectors * torch.arange(12.0).view(3, 4)).sum() * factor).backward()
        if clip:
            scaler.unscale_(optimizer)
            clip_grad_norm(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("clip", [True, False])
def test_a_scaled_loss_moves_two_tables_as_an_unscaled_one_by_the_bit(clip: bool) -> None:
    # The scale is a power of two. Without coalescing, torch divides the tables' shared values by it twice.
    for scaled, plain in zip(two_tables(True, clip), two_tables(False, clip), strict=True):
        assert torch.equal(scaled, plain)


@pytest.mark.parametrize("clip", [True, False])
def test_a_step_whose_scaled_gradient_overflows_is_skipped_and_not_counted(clip: bool) -> None:
    overflowed = two_tables(True, clip, first=float("inf"))
    assert all(p.isfinite().all() for p in overflowed)
    moved = (overflowed[0] - table().weight.detach()).abs().amax(dim=1)
    assert moved[1].item() == pytest.approx(1e-2, rel=0.05)  # a first step's length
    assert moved.nonzero().flatten().tolist() == [1, 2]

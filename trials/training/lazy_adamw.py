"""Lazy AdamW: each step updates only those rows of a large embedding table that its batch looked up.

AdamW updates a whole table at every step: each weight and each moment decays. A batch looks up a few hundred of
multilingual BERT's 119,547 rows, so nearly all that work is for rows without a gradient. Lazy AdamW leaves those rows
and their moments unchanged, as `torch.optim.SparseAdam` and TensorFlow's `LazyAdam` do. It is another update rule with
other results, so it is part of the recipe and not only a setting for speed:

- a row and its moments decay only at the steps that look it up, so a rare word stays closer to its pretrained vector
  and does not drift by the momentum of its last sentence;
- the bias correction counts the table's steps and not the row's, so a row that is first looked up late moves up to 3.2
  times the learning rate (with AdamW's usual betas) at that step; AdamW moves it as far then and further at the next;
- the padding row has no gradient and never decays.

If every step looks up every row, the two rules are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm
from torch.optim.optimizer import ParamsT

# A larger table is lazy. Tables of positions and token types are usually smaller, and a batch uses most of their rows.
LAZY_ROWS = 1_024


def make_lazy(model: nn.Module, *, above: int = LAZY_ROWS) -> list[nn.Embedding]:
    """Make the gradients of large trained tables sparse and coalesced (each row once, in order); return the tables.

    A table is large if it has more than `above` rows. It stays dense if another module shares it (tied weights), which
    gives every row a gradient. Call this on the model of one trial before its optimiser is created; tables that are
    frozen at that time are left alone.
    """
    users = Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and _can_be_lazy(m, above)]
    lazy = [table for table in tables if users[id(table.weight)] == 1]
    for table in lazy:
        table.sparse = True
        # The gradients of two tables whose outputs are added share memory, which a GradScaler would unscale twice
        # (torch 2.13). Coalescing copies.
        table.weight.register_post_accumulate_grad_hook(_coalesce)
    return lazy


def _can_be_lazy(table: nn.Embedding, above: int) -> bool:
    # torch has no sparse gradient for `scale_grad_by_freq`.
    return table.weight.requires_grad and table.num_embeddings > above and not table.scale_grad_by_freq


def _coalesce(parameter: torch.Tensor) -> None:
    gradient = parameter.grad
    if gradient is not None and gradient.is_sparse:
        parameter.grad = gradient.coalesce()


class LazyAdamW(torch.optim.AdamW):
    """AdamW that updates only the rows in a parameter's sparse gradient.

    Parameters with a dense gradient are updated by `torch.optim.AdamW` itself, bit for bit. The state has AdamW's keys
    and shapes.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, fused=fused)
        # A fused AdamW unscales gradients inside its kernel, which sees no sparse ones: the scaler must do it.
        self._step_supports_amp_scaling = False

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient; `closure` computes the gradients and returns the loss."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        tables = [(p, group) for group in self.param_groups for p in group["params"] if _has_sparse_gradient(p)]
        gradients = [table.grad for table, _ in tables]
        for table, _ in tables:
            table.grad = None  # AdamW skips it
        super().step()
        for (table, group), gradient in zip(tables, gradients, strict=True):
            self._update_rows(table, gradient.coalesce(), group)
            table.grad = gradient
        return loss

    def _update_rows(self, table: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        assert gradient.sparse_dim() == 1, "an embedding's gradient is sparse in its rows only"
        lr, (beta1, beta2), state = group["lr"], group["betas"], self._state_of(table, group)
        state["step"] += 1
        rows, slope = gradient.indices()[0], gradient.values()  # (rows used,), (rows used, width)
        moment = state["exp_avg"][rows].lerp_(slope, 1 - beta1)
        square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        state["exp_avg"].index_copy_(0, rows, moment)
        state["exp_avg_sq"].index_copy_(0, rows, square)
        # In double precision, as 1 - 0.999 loses half its digits in single; on the device, so the host never waits.
        bias1, bias2 = (1 - beta ** state["step"].double() for beta in (beta1, beta2))
        change = moment.div_(square.sqrt_().div_(bias2.sqrt()).add_(group["eps"])).mul_(lr / bias1)
        table.index_copy_(0, rows, table[rows].mul_(1 - lr * group["weight_decay"]).sub_(change))

    def _state_of(self, table: torch.Tensor, group: dict[str, Any]) -> dict[str, torch.Tensor]:
        state: dict[str, torch.Tensor] = self.state[table]
        if not state:
            # AdamW's own place for its count: with the weights if the step is fused, else on the CPU.
            state["step"] = torch.zeros((), dtype=torch.float32, device=table.device if group["fused"] else "cpu")
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        return state


def clip_grad_norm(parameters: Iterable[torch.Tensor], max_norm: float) -> torch.Tensor:
    """Scale the gradients in place so that their total norm is at most `max_norm`; return the norm before.

    Sparse gradients are coalesced first, so that a row looked up twice counts with the sum of its two gradients.
    Without sparse ones this is `torch.nn.utils.clip_grad_norm_`, bit for bit.
    """
    learning = [p for p in parameters if p.grad is not None]
    tables = [p for p in learning if _has_sparse_gradient(p)]
    if not tables:
        return clip_grad_norm_(learning, max_norm)
    for table in tables:
        _coalesce(table)
    values = [table.grad.values() for table in tables if table.grad is not None]
    dense = [p for p in learning if not _has_sparse_gradient(p)]
    norm = get_total_norm([*(p.grad for p in dense if p.grad is not None), *values])
    clip_grads_with_norm_(dense, max_norm, norm)
    for value in values:
        value.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))  # torch's own factor
    return norm


def _has_sparse_gradient(parameter: torch.Tensor) -> bool:
    return parameter.grad is not None and parameter.grad.is_sparse

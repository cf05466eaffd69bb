"""How the weights are moved: precision, rates of parts, schedule, clipping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import each
from tests.trials.conftest import TrialMaker, load_tiny, records_of, step_losses
from trials.spec import OptimSpec
from trials.training.loop import lr_share, new_optimizer

GENTLE: dict[str, Any] = {"optim": {"lr": 1e-3, "epochs": 1}, "dropout": 0.0, "train_size": 16}


@each("precision", ["fp16", "bf16"], quick=1)
def test_half_precision_trains_near_the_full_ones_losses(precision: str, make_trial: TrialMaker) -> None:
    full = step_losses(records_of(make_trial("deberta-v2", **GENTLE)))
    half = step_losses(records_of(make_trial("deberta-v2", **GENTLE, precision=precision)))
    assert np.isfinite(half).all()
    assert half == pytest.approx(full, abs=0.02)
    assert half != full


@each("head_lr", [None, 1e-2])
@each("decay", [None, 0.5, 0.9])
def test_each_part_has_the_rate_of_the_one_above_it_times_the_decay(
    decay: float | None, head_lr: float | None, make_trial: TrialMaker
) -> None:
    loaded = load_tiny(make_trial())
    optimizer = new_optimizer(loaded, OptimSpec(lr=1e-3, head_lr=head_lr, layer_decay=decay))
    rate = {id(p): group["peak_lr"] for group in optimizer.param_groups for p in group["params"]}
    factor = decay or 1.0
    expected = [(loaded.parts.head, head_lr or 1e-3), ((loaded.parts.embeddings,), 1e-3 * factor**5)]
    expected += [((layer,), 1e-3 * factor ** (4 - i)) for i, layer in enumerate(loaded.parts.encoder_layers)]
    for modules, peak in expected:
        assert [rate[id(p)] for m in modules for p in m.parameters()] == pytest.approx(
            [peak for m in modules for _ in m.parameters()]
        )


@given(n_steps=st.integers(1, 60), warmup=st.floats(0, 0.9))
def test_a_constant_schedule_is_level_after_its_warm_up(n_steps: int, warmup: float) -> None:
    n_warmup = int(np.ceil(warmup * n_steps))
    shares = [lr_share(step, n_steps, warmup, "constant") for step in range(n_steps)]
    assert shares[:n_warmup] == [step / n_warmup for step in range(n_warmup)]
    assert set(shares[n_warmup:]) <= {1.0}


def test_without_clipping_the_steps_are_those_of_a_norm_that_is_never_reached(make_trial: TrialMaker) -> None:
    # In fp16, as the norm is that of the gradient itself and not of the scaled one, which is 65,536 times larger.
    optims = [{"lr": 1e-2, "epochs": 1, "max_grad_norm": norm} for norm in (None, 1e3, 1e-3)]
    specs = (make_trial(precision="fp16", train_size=8, optim=optim) for optim in optims)
    free, wide, tight = (step_losses(records_of(spec)) for spec in specs)
    assert free == wide
    assert free != tight

"""A way of running steps is believed only where its gradient is that of its loss, on every device, for every family."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from orchestrator.execution.failures import failure
from tests.examples import each
from tests.trials.conftest import CPU, TrialMaker, records_of, save_tiny_model
from tests.trials.training.recorders import Recorders, Rerunning
from trials.errors import MissingError, RecordingError, is_device_broken
from trials.models import padding_free
from trials.models.family import MODEL_FAMILIES, Head, StepMode
from trials.record import State
from trials.spec import ModelSpec
from trials.training import device_loader, gradient_check, loop
from trials.training.batching import Batch, collate
from trials.training.gradient_check import (
    MODES,
    TOLERANCE,
    checked_mode,
    derivative_ratio,
    small_config,
    small_training,
    tried_mode,
)
from trials.training.loop import mean_loss, one_step
from trials.training.step_graphs import StepGraphs

ALL_MODES: tuple[StepMode, ...] = ("rows", "graphs", "padded", "plain")
TAKES_ROWS = [name for name in MODEL_FAMILIES if MODEL_FAMILIES[name].padding_free]
RIGHT = TOLERANCE["fp32"] / 5
RECORDED = [name for name in MODEL_FAMILIES if MODEL_FAMILIES[name].square_mask]


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A node that has checked nothing yet."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    gradient_check._fault.cache_clear()
    yield
    gradient_check._fault.cache_clear()


@pytest.fixture(scope="module")
def wide_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In half precision only a wide model has a gradient that is not drowned by rounding."""
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512, "num_hidden_layers": 2}
    return save_tiny_model("bert", tmp_path_factory.mktemp("wide"), **sizes)


def ratio_of(model: ModelSpec, mode: StepMode, *, head: Head = "tokens") -> float | None:
    """The ratio of the two derivatives on a CPU; graphs are replayed by running their step again. Where it is not 1
    with the first dropout mask, the median of three, as a head may have a kink within the step.
    """
    torch.manual_seed(0)
    training = small_training(model, head, small_config(model, head, 0.1), "fp32", mode, CPU)
    if training is None:
        return None
    if training.graphs:
        training.step_graphs = StepGraphs(Recorders().new)
    found = derivative_ratio(training, "fp32", 0)
    if abs(found - 1) < RIGHT:
        return found
    return float(np.median([found, *(derivative_ratio(training, "fp32", seed) for seed in (1, 2))]))


class Scaled(torch.autograd.Function):
    """The identity, whose backward pass returns a multiple of the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0] * ctx.factor, None


scaled: Any = Scaled.apply


@contextmanager
def wrong_attention(module: Any, name: str, by: float = 1.0) -> Iterator[None]:
    """Within the block a function of attention has the gradients that a GPU's kernel was found to return."""
    right = getattr(module, name)

    def wrong(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any, **more: Any) -> Any:
        given = (scaled(x, by * factor) for x, factor in zip((query, key, value), (0.82, 0.83, 0.89), strict=True))
        return right(*given, *others, **more)

    setattr(module, name, wrong)
    try:
        yield
    finally:
        setattr(module, name, right)


# The head of texts is the library's own, and rows go to it in one way for all that are causal and one for all others.
WITH_HEADS: list[tuple[str, Head]] = [("distilbert", "text"), ("gpt2", "text")]
WITH_HEADS += [(name, "tokens") for name in dict.fromkeys(["bert", "deberta-v2", "modernbert", *MODEL_FAMILIES])]


@each("family, head", WITH_HEADS, quick=5)
def test_the_gradient_is_right_in_every_mode_that_a_family_has(family: str, head: Head, make_trial: TrialMaker) -> None:
    ratios = {mode: ratio_of(make_trial(family).model, mode, head=head) for mode in ALL_MODES}
    run = {mode for mode, ratio in ratios.items() if ratio is not None}
    assert {"padded", "plain"} <= run
    assert ("graphs" in run) == (family in RECORDED)
    assert ("rows" in run) == (family in TAKES_ROWS and not (head == "text" and MODEL_FAMILIES[family].causal))
    assert all(abs(ratios[mode] - 1) < RIGHT for mode in run)  # type: ignore[operator]


@each("mode", MODES["cpu"])
def test_in_bf16_the_gradient_is_right_within_its_rounding(mode: StepMode, make_trial: TrialMaker) -> None:
    spec = make_trial("bert")
    found = tried_mode(spec.model, "tokens", small_config(spec.model, "tokens", 0.1), None, "bf16", mode, CPU)
    assert found is None or abs(found[0] - 1) < found[1]


WRONG: dict[StepMode, tuple[Any, str]] = {
    "rows": (padding_free, "_one_by_one"),
    "graphs": (functional, "scaled_dot_product_attention"),
    "padded": (functional, "scaled_dot_product_attention"),
}


@each("precision", ["fp32", "bf16"], quick=1)
@each("mode", list(WRONG))
def test_the_wrong_gradient_of_a_kernel_is_seen(
    mode: StepMode, precision: str, wide_bert: Path, make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_trial("bert", **({} if precision == "fp32" else {"model": str(wide_bert)})).model
    monkeypatch.setattr(loop, "CudaGraphRecorder", lambda device: Recorders().new())
    with wrong_attention(*WRONG[mode]):
        found = tried_mode(model, "tokens", small_config(model, "tokens", 0.1), None, precision, mode, CPU)
    assert found is not None
    assert found.ratio - 1 > 1.5 * found.tolerance


# --- What both derivatives share


class Planted(Rerunning):
    """A recorder whose replays have a fault."""

    def __init__(self, fault: Callable[[Any, Batch, Any], Any]) -> None:
        super().__init__()
        self._fault = fault

    def record(self, step: Any) -> Callable[[], torch.Tensor]:
        """`step` is a partial: of the training first, of the batch last."""
        if step.func is not one_step:
            return super().record(step)
        training, batch = step.args
        rates = [float(group["lr"]) for group in training.optimizer.param_groups]
        then = batch.each(torch.clone), rates, torch.get_rng_state()
        return super().record(lambda: self._fault(training, batch, then))


def no_dropout(training: Any, batch: Batch, then: Any) -> torch.Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "dropout", lambda hidden, *rest, **more: hidden)
        return one_step(training, batch)


def same_mask(training: Any, batch: Batch, then: Any) -> torch.Tensor:
    torch.set_rng_state(then[2])
    return one_step(training, batch)


def first_batch(training: Any, batch: Batch, then: Any) -> torch.Tensor:
    return one_step(training, then[0])


def no_update(training: Any, batch: Batch, then: Any) -> torch.Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training.optimizer, "step", lambda: None)
        return one_step(training, batch)


def stale_rate(training: Any, batch: Batch, then: Any) -> torch.Tensor:
    for group, rate in zip(training.optimizer.param_groups, then[1], strict=True):
        group["lr"].fill_(rate)
    return one_step(training, batch)


@each("fault", [no_dropout, same_mask, first_batch, no_update, stale_rate])
def test_replays_that_are_not_the_steps_that_were_recorded_are_seen(
    fault: Callable[[Any, Batch, Any], Any], make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CudaGraphRecorder", lambda device: Planted(fault))
    model = make_trial("bert").model
    found = tried_mode(model, "tokens", small_config(model, "tokens", 0.1), None, "fp32", "graphs", CPU)
    assert found is not None
    assert found.fault.startswith("recorded steps have losses up to")
    assert found.recorded > 10 * found.limit


def padding_is_attended_to(patch: pytest.MonkeyPatch) -> None:
    def wrong(*given: Any, **more: Any) -> Batch:
        batch = collate(*given, **more)
        return replace(batch, mask=torch.ones_like(batch.ids))

    patch.setattr(device_loader, "collate", wrong)


def padded_labels_are_a_class(patch: pytest.MonkeyPatch) -> None:
    def wrong(*given: Any, **more: Any) -> Batch:
        batch = collate(*given, **more)
        return replace(batch, labels=batch.labels.clamp(min=0))

    patch.setattr(device_loader, "collate", wrong)


def padded_places_are_in_the_mean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loop, "count_labels", lambda batch: torch.tensor(batch.labels.numel()))


def half_of_a_split_batch_is_lost(patch: pytest.MonkeyPatch) -> None:
    right = Batch.parts
    patch.setattr(Batch, "parts", lambda batch, n: islice(right(batch, n), 1))


PADDING = [
    padding_is_attended_to,
    padded_labels_are_a_class,
    padded_places_are_in_the_mean,
    half_of_a_split_batch_is_lost,
]


@each("plant", PADDING)
@each("mode", ["padded", "graphs"], quick=1)
def test_a_loss_that_is_not_that_of_the_sentences_alone_is_seen(
    mode: StepMode,
    plant: Callable[[pytest.MonkeyPatch], None],
    make_trial: TrialMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "CudaGraphRecorder", lambda device: Recorders().new())
    plant(monkeypatch)
    model = make_trial("bert").model
    found = tried_mode(model, "tokens", small_config(model, "tokens", 0.1), None, "fp32", mode, CPU)
    assert found is not None
    assert found.fault.startswith("a padded batch has a loss")
    assert found.padded > 10 * found.limit


@each("is_wrong", [lambda query: query.shape[2] in (64, 192), lambda query: len(query) > 4])
def test_a_kernel_that_is_wrong_at_some_widths_or_for_many_rows_is_seen(
    is_wrong: Callable[[torch.Tensor], bool], make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = functional.scaled_dot_product_attention

    def wrong(query: torch.Tensor, *others: Any, **more: Any) -> Any:
        return right(scaled(query, 0.5) if is_wrong(query) else query, *others, **more)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", wrong)
    model = make_trial("bert").model
    found = tried_mode(model, "tokens", small_config(model, "tokens", 0.1), None, "fp32", "padded", CPU)
    assert found is not None
    assert "times its gradient" in found.fault


@each("mode", ["graphs", "padded"])
def test_gradients_that_are_no_numbers_are_refused_as_a_kernels(
    mode: StepMode, make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CudaGraphRecorder", lambda device: Recorders().new())
    model = make_trial("bert").model
    with wrong_attention(functional, "scaled_dot_product_attention", by=math.nan):
        found = tried_mode(model, "tokens", small_config(model, "tokens", 0.1), None, "fp32", mode, CPU)
    assert found is not None
    assert math.isnan(found[0])
    assert gradient_check._as_fault(found) == "the loss changes by nan times its gradient"


class FailingRecorder(Rerunning):
    """One whose recording fails, of steps of the check or of a trial's; torch then goes on capturing."""

    def __init__(self, *, in_check: bool) -> None:
        super().__init__()
        self._in_check = in_check

    def record(self, step: Any) -> Callable[[], torch.Tensor]:
        if (step.args[0].n_steps == gradient_check.N_RECORDED) == self._in_check:
            raise RuntimeError("operation not permitted when stream is capturing")
        return super().record(step)


@pytest.mark.parametrize("in_check", [True, False])
def test_after_a_recording_that_failed_the_process_ends_and_the_next_one_begins_with_padded(
    in_check: bool, make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CudaGraphRecorder", lambda device: FailingRecorder(in_check=in_check))
    monkeypatch.setitem(MODES, "cpu", MODES["cuda"])
    spec = make_trial("bert", optim={"epochs": 3})
    with pytest.raises(RecordingError, match="cannot be recorded") as error:
        records_of(spec)
    assert is_device_broken(error.value)
    assert failure(error.value)[0] is State.LOST
    gradient_check._fault.cache_clear()  # as in a new process
    record = records_of(spec)[-1]
    assert (record.step_mode, "cannot be recorded" in str(record.refused_modes)) == ("padded", True)
    gradient_check._fault.cache_clear()
    monkeypatch.setattr(time, "time", lambda: 1e12)  # the verdict is too old
    with pytest.raises(RecordingError, match="cannot be recorded"):
        records_of(spec)


@each(
    "text",
    [
        "captures_underway.empty() INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp",
        "Offset increment outside graph capture encountered unexpectedly.",
    ],
)
def test_what_torch_says_after_a_recording_that_failed_is_a_broken_device(text: str) -> None:
    assert is_device_broken(RuntimeError(text))


def test_a_trial_runs_in_the_next_mode_and_its_row_says_why(make_trial: TrialMaker) -> None:
    with wrong_attention(padding_free, "_one_by_one"):
        record = records_of(make_trial("bert", dropout=0.1))[-1]
    assert (record.step_mode, record.padding_free) == ("padded", 0)
    assert record.refused_modes is not None
    assert record.refused_modes.startswith("rows: the loss changes by 1.")


def test_without_a_right_mode_a_trial_fails_in_words(make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_check, "tried_mode", lambda *_: (0.82, 0.005))
    with pytest.raises(MissingError, match=r"no way of training bert in fp32 .* \(rows: .* 0\.820 .*; plain: "):
        checked_mode(make_trial("bert"), CPU)


def test_a_mode_that_raises_is_refused_but_not_where_the_device_answers_no_longer_or_memory_is_full(
    make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*given: Any) -> tuple[float, float]:
        if given[5] == "rows":
            raise RuntimeError("no kernel image is available for execution on the device")
        return 1.0, 0.005

    monkeypatch.setattr(gradient_check, "tried_mode", failing)
    found = checked_mode(make_trial("bert"), CPU)
    assert (found.mode, found.refused) == (
        "padded",
        "rows: it failed (no kernel image is available for execution on the device)",
    )

    def poisoned(device: torch.device) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    gradient_check._fault.cache_clear()
    monkeypatch.setattr(gradient_check, "wait_for", poisoned)
    with pytest.raises(RuntimeError, match="illegal memory access") as error:  # the worker's process has to end
        checked_mode(make_trial("bert"), CPU)
    assert is_device_broken(error.value)

    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    gradient_check._fault.cache_clear()
    monkeypatch.setattr(gradient_check, "tried_mode", full)
    with pytest.raises(torch.OutOfMemoryError):
        checked_mode(make_trial("distilbert"), CPU)


def test_a_model_that_draws_in_its_first_pass_is_right(make_trial: TrialMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As BigBird does, which swaps its attention for another one there."""
    right, passes = mean_loss, list[int]()

    def drawing(*given: Any) -> torch.Tensor:
        if not passes:
            torch.rand(7)
        passes.append(1)
        return right(*given)

    monkeypatch.setattr(gradient_check, "mean_loss", drawing)
    ratio = ratio_of(make_trial("bert").model, "padded")
    assert ratio == pytest.approx(1.0, abs=TOLERANCE["fp32"])


def test_an_architecture_of_nobodys_trains_in_the_plainest_mode_where_none_is_right(
    make_trial: TrialMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient_check, "tried_mode", lambda *_: (1.0165, 0.005))  # YOSO's own, by design
    found = checked_mode(make_trial(model=str(save_tiny_model("ernie", tmp_path))), CPU)
    assert found.mode == "plain"
    assert found.refused.count("1.016") == 3


def test_random_numbers_and_weights_of_a_trial_are_not_touched(make_trial: TrialMaker) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    checked_mode(make_trial("bert"), CPU)
    assert torch.equal(torch.get_rng_state(), before)

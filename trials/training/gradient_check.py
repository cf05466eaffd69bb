"""The fastest way of running training steps whose gradient is right on this node.

A kernel can be wrong in silence. On the first GPU that ran trials, attention over sentences of unequal length returned
gradients that were not those of its own forward pass as soon as there was dropout, and each score was 1 to 4.7 points
too low (docs/pages/decisions/26.md). So a node believes a way of running steps only after it has compared two
directional derivatives of the loss: one by differences of the loss alone, the other by the gradient that the backward
pass gives. They are taken with dropout, for sentences of unequal length in batches of several widths, through the same
kernels (and CUDA graphs, if used) as in its trials. Two more checks find faults that both derivatives share: whether a
padded batch in two parts has the loss of its sentences alone, and whether recorded steps equal steps run one by one.

Two layers of the trial's architecture are tried, at full width and with random weights. The verdict is kept for the
node by card, driver, torch, architecture, precision and dropout, so a second trial of the kind pays nothing.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn.functional import cross_entropy

from trials.cache.node_cache import node_folder, read_checked_json, write_json
from trials.cache.set_up_work import note
from trials.errors import (
    MissingError,
    ModelError,
    RecordingError,
    is_device_broken,
    is_device_gone,
    is_out_of_memory,
    reason,
)
from trials.hardware.device import autocast, device_name, wait_for
from trials.models.family import MODEL_FAMILIES, Head, StepMode
from trials.models.load import LoadedModel, family_of, head_class, head_config, prepare
from trials.models.products import use_fastest_products
from trials.sources.cache import file_lock
from trials.spec import BASELINE, LoraSpec, ModelSpec, OptimSpec, TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import Example
from trials.training.batching import Batch, collate, laid_end_to_end, takes_square_mask
from trials.training.loop import Training, mean_loss, one_step
from trials.training.step_rule import graphs_are_off

MODES: dict[str, tuple[StepMode, ...]] = {"cpu": ("rows", "padded", "plain"), "cuda": ("graphs", "padded", "plain")}
"""How steps can run on a kind of device, the fastest first."""

TOLERANCE = {"fp32": 0.005, "bf16": 0.02, "fp16": 0.02}
"""How far the ratio of the two derivatives may be from 1. Right kernels are within 0.001 in fp32. The attention above
gives 1.08 to 1.13; if queries alone are wrong, 1.015 to 1.04 (on a CPU, ten architectures)."""
ROUNDING = {"fp32": 0.0, "bf16": 0.06, "fp16": 0.06}
"""What is allowed beside for one dropout mask and a million weights: five standard deviations of rounding. They fall
with the root of their product (0.012 in bf16, at widths from 16 to 384): narrow models are tried with several masks."""
MOST_MASKS = 4  # dropout masks over which rounding errors are averaged
STEP = {"fp32": 1e-4, "bf16": 1e-3, "fp16": 1e-3}
"""As a share of each weight's norm; longer where products are rounded."""
LOSS_SCALE = {"fp32": 1.0, "bf16": 1.0, "fp16": 1024.0}  # small gradients vanish in fp16
ELSEWHERE = 0.1  # the share of the step for weights that are not attention's, whose part in the loss would drown it
LIMIT = {"fp32": 1e-4, "bf16": 0.01, "fp16": 0.01}
"""How far two losses that should be one may be apart, as a share. Planted faults give 0.018 and more in fp32."""
GROUPS = ((2, 32, 13), (64, 9), (113, 50), tuple(range(1, 17)), (7, 32, 20))
"""Subwords of the sentences of each batch: widths at which kernels were found wrong (64: pytorch #196678) and one
that is no multiple of 16, more rows than four, and one more batch of the first one's shape."""
COMPARED, RECORDED = (0, 1, 2, 3), (0, 4, 1)  # groups of the derivatives; of recorded steps
N_RECORDED = 12  # steps: four rounds of `RECORDED`, so that each shape is run, recorded, and replayed twice at least
N_LABELS = 5
FAILURE_KEPT_S = 86_400.0  # a recording that failed ends its process; afterwards another driver may be there
VERSION = 5  # increment it when a verdict could be another


class Tried(NamedTuple):
    """The measurements of one mode.

    Attributes:
        ratio: Ratio of the two derivatives, in the batch in which it is farthest from 1.
        tolerance: How far `ratio` may be from 1.
        padded: How far the loss of a padded batch is from that of its sentences alone, as a share.
        recorded: How far the losses of recorded steps are from those of the same one by one; 0 without graphs.
        limit: The largest value of `padded` and `recorded` that passes.
    """

    ratio: float
    tolerance: float
    padded: float = 0.0
    recorded: float = 0.0
    limit: float = 0.0

    @property
    def fault(self) -> str:
        """What is wrong with the mode; empty if nothing is."""
        if not abs(self.ratio - 1) <= self.tolerance:  # also where it is no number
            return f"the loss changes by {self.ratio:.3f} times its gradient"
        if not self.padded <= self.limit:
            return f"a padded batch has a loss {self.padded:.1%} away from that of its sentences alone"
        if not self.recorded <= self.limit:
            return f"recorded steps have losses up to {self.recorded:.1%} away from those of the same one by one"
        return ""


@dataclass(frozen=True)
class CheckedMode:
    """The mode in which the steps of a trial run.

    Attributes:
        refused: The faster modes that were found wrong here, with what was found; empty if there is none.
    """

    mode: StepMode
    refused: str = ""


def checked_mode(spec: TrialSpec, device: torch.device) -> CheckedMode:
    """The fastest mode whose gradient is right on this node.

    The backward pass of an unregistered architecture may itself be an approximation: if no mode is right for it, a
    note says so, and it trains in the plainest one.

    Raises:
        MissingError: no mode is right.
        ModelError: the model cannot be built.
    """
    # Where the fastest is right one check is made; where it is not, the reason stays in the trial's row.
    refused = list[str]()
    for mode in MODES[device.type]:
        if mode == "graphs" and graphs_are_off():
            continue
        fault = _fault(Case.from_trial(spec, mode, device))
        if fault == "":
            return CheckedMode(mode, "; ".join(refused))
        if fault is not None:
            refused.append(f"{mode}: {fault}")
    if spec.model.family not in MODEL_FAMILIES:
        return CheckedMode(MODES[device.type][-1], "; ".join(refused))
    raise MissingError(
        f"no way of training {spec.model.family} in {spec.precision} gives the gradient of its loss on "
        f"{device_name(device)} with torch {torch.__version__} ({'; '.join(refused)}). Use another precision, another "
        "version of torch or another device."
    )


class Case(NamedTuple):
    """Everything other than versions that a verdict depends on."""

    spec: ModelSpec
    head: Head
    dropout: float | None
    lora: LoraSpec | None
    precision: str
    mode: StepMode
    device: torch.device

    @classmethod
    def from_trial(cls, spec: TrialSpec, mode: StepMode, device: torch.device) -> Case:
        """The steps of a trial in a mode."""
        return cls(spec.model, TASKS[spec.task].head, spec.dropout, spec.lora, spec.precision, mode, device)

    @property
    def config(self) -> Any:
        """The configuration of the model that is tried."""
        return small_config(self.spec, self.head, self.dropout)

    @property
    def digest(self) -> str:
        """The name of its verdict on this node, with today's versions."""
        cudnn = torch.backends.cudnn.version() if self.device.type == "cuda" else None  # may be changed alone
        versions = [VERSION, torch.__version__, transformers.__version__, _driver(), cudnn]
        place = [*versions, device_name(self.device), self.mode, self.precision]
        what = f"{place} {self.head} {self.lora} {family_of(self.spec)} {self.config.to_json_string(use_diff=False)}"
        return hashlib.sha256(what.encode()).hexdigest()[:24]


def refuse_graphs(spec: TrialSpec, device: torch.device, error: BaseException) -> None:
    """Remember on this node, for a day, that a step of such a trial cannot be recorded: trying ends the process."""
    _keep_failure(Case.from_trial(spec, "graphs", device).digest, error)


def _verdict_file(digest: str) -> Path:
    """The cache file of a verdict. Raises OSError if there is no room for a cache."""
    return node_folder("gradient_checks", digest, 1 << 12) / "ratio.json"


def _keep_failure(digest: str, error: BaseException) -> None:
    failed = {"fault": f"it failed ({reason(error)})", "until": time.time() + FAILURE_KEPT_S}
    with suppress(OSError):
        write_json(_verdict_file(digest), failed, digest)


@cache
def _fault(case: Case) -> str | None:
    """What is wrong with a mode on this node; empty if nothing is, None if the model cannot run in it.

    Raises:
        RecordingError: Steps as graphs left CUDA useless in this process.
    """
    digest, mode = case.digest, case.mode
    with ExitStack() as stack:
        kept: Path | None = None
        with suppress(OSError):
            kept = _verdict_file(digest)
            stack.enter_context(file_lock(kept.with_name(".lock")))  # of workers that start together, one tries
        if kept is not None:
            with suppress(OSError, ValueError):
                found = read_checked_json(kept, digest)
                if not isinstance(found, dict) or time.time() < found["until"]:
                    return _as_fault(found)
        try:
            found = tried_mode(case.spec, case.head, case.config, case.lora, case.precision, mode, case.device)
        except RuntimeError as error:  # of a kernel, or of the recording; not kept, as it may have been a passing one
            broken = is_device_broken(error)
            if is_out_of_memory(error) or is_device_gone(error) or (broken and mode != "graphs"):
                raise
            if broken:
                _keep_failure(digest, error)
                raise RecordingError(f"CUDA error: recorded steps fail: {error}") from error
            wait_for(case.device)  # raises where CUDA answers no longer: then this process has to end
            return _noted_fault(mode, f"it failed ({reason(error)})")
        if kept is not None:
            with suppress(OSError):
                write_json(kept, found, digest)
    verdict = _as_fault(found)
    return _noted_fault(mode, verdict) if verdict else verdict


def _as_fault(found: Any) -> str | None:
    if found is None:
        return None
    if isinstance(found, dict):
        return str(found["fault"])
    return Tried(*found).fault


def _noted_fault(mode: StepMode, fault: str) -> str:
    note(f"training steps on this node do not run as {mode!r}: {fault}")
    return fault


def _driver() -> str:
    """The version of NVIDIA's kernel module; empty where there is none."""
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def tried_mode(
    spec: ModelSpec,
    head: Head,
    config: Any,
    lora: LoraSpec | None,
    precision: str,
    mode: StepMode,
    device: torch.device,
) -> Tried | None:
    """What the small model does in a mode; None if it cannot run in it.

    Raises:
        RuntimeError: a step fails.
    """
    make = partial(small_training, spec, head, config, precision, mode, device, lora=lora)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        training = make(COMPARED)
        if training is None:
            return None
        n_weights = sum(weight.numel() for weight in training.weights)
        n_masks = 1 if precision == "fp32" else min(-(-4_000_000 // n_weights), MOST_MASKS)
        tolerance = TOLERANCE[precision] + ROUNDING[precision] * (1e6 / n_weights / n_masks) ** 0.5
        ratios = list[float]()
        for _ in COMPARED:
            ratio_for = partial(derivative_ratio, training, precision, batch=next(training.device_batches))
            ratio = float(np.mean([ratio_for(seed) for seed in range(n_masks)]))
            if abs(ratio - 1) > tolerance:  # with a kink (ReLU) within the step there is no one derivative; try others
                ratio = float(np.median([ratio, *map(ratio_for, range(n_masks, n_masks + 2))]))
            ratios.append(ratio)
        worst = max(ratios, key=lambda ratio: math.inf if math.isnan(ratio) else abs(ratio - 1))
        if not abs(worst - 1) <= tolerance:
            return Tried(worst, tolerance)
        recorded = recorded_difference(make) if training.graphs else 0.0
        return Tried(worst, tolerance, padded_difference(training), recorded, LIMIT[precision])


def small_config(spec: ModelSpec, head: Head, dropout: float | None) -> Any:
    """The configuration of a model with few layers and a small vocabulary, else as it is."""
    config, family = head_config(spec, head, N_LABELS, dropout), family_of(spec)
    small = {family.layers_key: min(getattr(config, family.layers_key), 2), family.positions_key: 128}
    for name, value in {**small, "vocab_size": 64, "pad_token_id": 1}.items():
        setattr(config, name, value)
    config.initializer_range = config.hidden_size**-0.5  # with the library's 0.02 attention hardly matters
    return config


def small_training(
    spec: ModelSpec,
    head: Head,
    config: Any,
    precision: str,
    mode: StepMode,
    device: torch.device,
    groups: Sequence[int] = COMPARED,
    *,
    lora: LoraSpec | None = None,
    lr: float = 5e-5,
) -> Training | None:
    """The training of such a model with random weights in a mode, on batches of `GROUPS` one after the other; None if
    it cannot run in it. Raises ModelError.
    """
    family = family_of(spec)
    if mode == "plain":
        config._attn_implementation = "eager"
    use_fastest_products()
    try:
        model = head_class(head, config)(config)
    except Exception as error:  # the architecture's own code may raise anything
        raise ModelError(
            f"{spec.path}: {spec.family!r} cannot be built with a head ({reason(error)}). Use another model."
        ) from error
    first_position = prepare(model, family, head, mode)
    if (mode == "rows" and first_position is None) or (mode == "graphs" and not takes_square_mask(model)):
        return None
    rng = np.random.default_rng(0)
    n_labels = [[n if head == "tokens" else 1 for n in group] for group in GROUPS]
    examples = [
        Example(
            rng.integers(5, 60, n), rng.integers(0, N_LABELS, labels), np.arange(labels), np.zeros(labels, np.int64)
        )
        for n, labels in zip(chain(*GROUPS), chain(*n_labels), strict=True)
    ]
    ends = np.cumsum([len(group) for group in GROUPS])
    indices = [np.arange(end - len(group), end) for end, group in zip(ends, GROUPS, strict=True)]
    loaded = LoadedModel(model, family.parts(model), first_position, family.stack)
    if lora is not None:
        from trials.models.adapters import add_adapters  # importing peft takes two seconds

        add_adapters(loaded, family, lora, BASELINE)
    model.to(device)
    return Training(
        loaded=loaded, optim=OptimSpec(lr=lr), examples=examples, batches=cycle([indices[i] for i in groups]), pad_id=1,
        device=device, precision=autocast(precision, device), n_steps=N_RECORDED, scaled=precision == "fp16", mode=mode,
    )  # fmt: skip


def derivative_ratio(training: Training, precision: str, seed: int = 0, *, batch: Batch | None = None) -> float:
    """The derivative of a batch's loss along a direction by central differences, divided by the gradient's.

    The batch is the next one by default. The direction is the gradient, with each weight's part as long as the weight,
    and a tenth of that outside attention.
    Random numbers are those of the seed at each evaluation. Leaves the weights as they were, but for rounding.
    """
    model, scale, step = training.loaded.model.train(), LOSS_SCALE[precision], STEP[precision]
    batch = next(training.device_batches) if batch is None else batch
    weights = [p for p in model.parameters() if p.requires_grad]
    take = partial(_loss, training, scale)
    recorded = None if training.step_graphs is None else training.step_graphs.stepper(take, seed)

    def loss(*, backward: bool = False) -> float:
        torch.manual_seed(seed)
        return float(recorded(batch) if recorded else take(batch, backward=backward))

    loss()  # in its first pass a model may change itself, or draw
    loss(backward=True)  # its gradient counts; with graphs this step is recorded, and those below are replayed
    if recorded:
        loss()
    of_attention, given = _attention_weights(model), 0.0
    moved, directions = list[torch.Tensor](), list[torch.Tensor]()
    with torch.no_grad():
        for weight in weights:
            if weight.grad is None or not (norm := float(weight.grad.norm())) or not (length := float(weight.norm())):
                continue
            share = 1.0 if id(weight) in of_attention else ELSEWHERE
            moved.append(weight)
            directions.append(weight.grad * (share * length / norm))
            given += share * length * norm / scale
        losses, shift = dict[int, float](), 0
        for place in (1, -1, 2, -2):
            torch._foreach_add_(moved, directions, alpha=(place - shift) * step)
            with torch.enable_grad():
                losses[place], shift = loss(), place
        torch._foreach_add_(moved, directions, alpha=-shift * step)
    if not given:
        return math.nan
    differences = 8 * (losses[1] - losses[-1]) - (losses[2] - losses[-2])  # without the error of the third order
    return differences / (12 * step * given)


def padded_difference(training: Training) -> float:
    """By how much the loss of the next batch, in two parts without dropout, differs from that of single examples.

    The second loss involves no padding, masking, counting or splitting, so a fault in any of these is seen. The result
    is a share of the loss. The step is taken at a rate of 0, which leaves the weights as they are.
    """
    model, batch = training.loaded.model.eval(), next(training.device_batches)
    for group in training.optimizer.param_groups:
        group["lr"] = group["lr"] * 0  # a tensor stays one
    training.accumulation = 2
    together, total, n_labels = float(one_step(training, batch)), 0.0, 0
    for example in training.examples[: len(GROUPS[0])]:
        if (first := training.loaded.first_position) is None:
            alone = collate([example], training.pad_id, training.device)
        else:
            alone = laid_end_to_end([example], first)
        with torch.no_grad(), training.precision:
            logits = alone.logits(model)
        total += float(cross_entropy(logits.flatten(0, 1), alone.labels.flatten(), reduction="sum"))
        n_labels += len(example.labels)
    return abs(together / (total / n_labels) - 1)


def recorded_difference(make: Callable[..., Training | None]) -> float:
    """The largest relative difference in loss between recorded steps and the same steps one by one, whole and in parts.

    Both begin with the same weights and random numbers and train with dropout at a falling rate, so masks that repeat,
    batches that do not arrive, weights that stay and rates of the recording are seen. `make` is `small_training` but
    for its groups and rate. NaN if a loss is no number.
    """

    def losses(n_parts: int, *, is_recorded: bool) -> np.ndarray:
        torch.manual_seed(0)
        training = make(RECORDED, lr=1e-3)
        assert training is not None, "it ran in this mode before"
        training.accumulation = n_parts
        if not is_recorded:
            training.step_graphs = None
        take_step, values = training.stepper(), list[float]()
        for batch in islice(training.device_batches, N_RECORDED):
            training.set_lr()
            values.append(float(take_step(batch)))
            training.step += 1
        return np.array(values)

    ratios = [losses(n, is_recorded=True) / losses(n, is_recorded=False) for n in (1, 2)]
    return float(np.abs(np.array(ratios) - 1).max())


def _loss(training: Training, scale: float, batch: Batch, *, backward: bool = True) -> torch.Tensor:
    """The loss of a batch; with `backward` its gradients, times the scale, become the weights' own."""
    with training.precision:
        loss = mean_loss(training.loaded.model, batch)
    if backward:
        for weight in training.weights:
            weight.grad = None
        (loss * scale).backward()
    return loss.detach()


def _attention_weights(model: nn.Module) -> set[int]:
    """The ids of the parameters of the innermost modules that the library calls an attention."""
    return {id(p) for module in model.modules() if _is_innermost(module) for p in module.parameters()}


def _is_innermost(module: nn.Module) -> bool:
    inside: Sequence[nn.Module] = [m for m in module.modules() if "Attention" in type(m).__name__]
    return inside == [module]

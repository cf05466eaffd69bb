"""Trials on the device against the plainest loop on the CPU: padded batches, nothing cached, no graph, fp32.

Both start from the same weights and take the same batches. Without dropout the losses of all steps are compared; so a
difference of layout, cached states, CUDA graphs or precision shows as a number. With dropout, whose random numbers
differ between devices, each family is asked what the product asks before a trial: whether the gradient is that of the
loss, and what else `trials.training.gradient_check` compares.
"""

from __future__ import annotations

import copy
import math
import traceback
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import cuda_graphs, trial_losses
from tests.lab.gpu.workload import LAYERS, changed, data_spec, encode, first, nothing
from trials.models.family import MODEL_FAMILIES
from trials.seeding import numpy_stream
from trials.spec import TrialSpec
from trials.tasks.task import IGNORE
from trials.training.batching import padded_rows, shuffled_batches
from trials.training.gradient_check import checked_mode
from trials.training.loop import lr_share, new_optimizer
from trials.training.new_training import new_model, train_subset

N_TRAIN, BATCH, EPOCHS = 40, 4, 2  # 20 steps
LONGEST = 48  # subwords
DROPOUT = 0.1
SMALL = {
    "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
    "vocab_size": 300, "pad_token_id": 0,
    "max_position_embeddings": LONGEST + 2,  # where positions start at 2 at the latest
}  # fmt: skip
LAST_S = 6.0  # a family is begun if so many seconds are left
LOSSES = "largest difference of a loss over 20 steps"
REFUSED = "families of which a mode of steps is refused, with dropout"
LIMITS = {  # of a loss, which is about 2.8 at the start
    f"{LOSSES}, nothing frozen": 1e-4,
    f"{LOSSES}, cached states": 1e-4,
    f"{LOSSES}, step by step": 1e-4,
    f"{LOSSES}, bf16": 0.05,
    REFUSED: 0,
    f"{REFUSED}, step by step": 0,
}
Check = Callable[[], float]


def run(context: PartContext, record: Record) -> None:
    """Every registered family; one for which no time is left is counted as not compared."""
    torch.set_num_threads(1)  # threads that wait for each other make tiny products slow
    worst: dict[str, float | None] = {}
    left_out = []
    for family in sorted(MODEL_FAMILIES, key=lambda family: family not in LAYERS):  # those of the studies first
        if context.left_s() < LAST_S:
            left_out.append(family)
            continue
        found = {claim: _measured(check) for claim, check in _checks(context, family).items()}
        record.note(**{family: found})
        for claim, distance in found.items():
            before = worst.get(claim, 0.0)
            if before is None or isinstance(distance, str) or math.isnan(distance):
                worst[claim] = None  # what went wrong is no distance, and the claim does not hold
            else:
                worst[claim] = max(distance, before)
    for claim, limit in LIMITS.items():
        record.check(claim, worst.get(claim), limit)
    record.note(families_not_compared=left_out)
    record.check("families for which no time was left", len(left_out), 0)


def _checks(context: PartContext, family: str) -> dict[str, Check]:
    """What is measured of a family; of those that no study has, less."""
    spec = small_trial(context, family)
    checks: dict[str, Check] = {
        f"{LOSSES}, nothing frozen": lambda: _loss_distance(spec),
        f"{LOSSES}, cached states": lambda: _loss_distance(changed(spec, freeze=first(2))),
        REFUSED: lambda: _refused(spec, context.device),
        f"{REFUSED}, step by step": lambda: _refused(spec, context.device, graphs=False),
    }
    if family in LAYERS:
        checks |= {
            f"{LOSSES}, step by step": lambda: _loss_distance(spec, graphs=False),
            f"{LOSSES}, bf16": lambda: _loss_distance(changed(spec, precision="bf16")),
        }
    return checks


def _measured(check: Check) -> float | str:
    """A distance; what went wrong if there is none, so that it does not hide the others."""
    try:
        return check()
    except Exception:
        return traceback.format_exc(limit=-3)


def _loss_distance(spec: TrialSpec, **options: Any) -> float:
    losses, plain = trial_losses(spec, **options), plain_losses(changed(spec, precision="fp32"))
    return float(np.abs(np.array(losses) - np.array(plain)).max())


def _refused(spec: TrialSpec, device: torch.device, *, graphs: bool = True) -> float:
    """0; raises AssertionError with what is found."""
    with cuda_graphs(graphs):
        refused = checked_mode(changed(spec, dropout=DROPOUT), device).refused
    assert not refused, refused
    return 0.0


def small_trial(context: PartContext, family: str) -> TrialSpec:
    """A trial of a tiny model of a family, without dropout."""
    like = context.workload.study1()[0]
    model = context.workload.model(family, 3, **SMALL)
    return changed(
        like, model=model, data=data_spec("ewt", (N_TRAIN, 8, 0)), train_size=N_TRAIN, freeze=nothing(), dropout=0.0,
        max_length=LONGEST, precision="fp32", optim={"lr": 1e-3, "batch_size": BATCH, "epochs": EPOCHS},
    )  # fmt: skip


@lru_cache(maxsize=2)
def plain_losses(spec: TrialSpec) -> list[float]:
    """The losses of all steps on the CPU: one padded matrix a batch, the library's own mask, the whole model."""
    data, cpu = encode(spec), torch.device("cpu")
    loaded = copy.deepcopy(new_model(spec, len(data.labels), cpu))
    examples = [data.train.examples[i] for i in train_subset(spec, data.train)]
    model: Any = loaded.model
    if model.config._attn_implementation not in ("eager", "sdpa"):
        model.set_attn_implementation("sdpa")  # the library's own
    optimizer = new_optimizer(loaded, spec.optim)
    trained = [p for p in loaded.model.parameters() if p.requires_grad]
    batches = shuffled_batches(len(examples), spec.optim.batch_size, numpy_stream(spec.seeds.order, "order"))
    n_steps, losses = spec.optim.epochs * -(-len(examples) // spec.optim.batch_size), []
    model.train()
    for step in range(n_steps):
        chosen = [examples[i] for i in next(batches)]
        ids = torch.from_numpy(padded_rows([e.ids for e in chosen], data.pad_id))  # (sentences, subwords)
        labels = torch.from_numpy(padded_rows([e.labels for e in chosen], IGNORE))
        mask = torch.from_numpy(padded_rows([np.ones_like(e.ids) for e in chosen], 0))
        logits = model(input_ids=ids, attention_mask=mask).logits.float()
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE)
        loss.backward()
        if spec.optim.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(trained, spec.optim.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * lr_share(step, n_steps, spec.optim.warmup, spec.optim.schedule)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses

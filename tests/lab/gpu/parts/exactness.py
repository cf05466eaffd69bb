"""Trials on the device against the plainest loop on the CPU: padded batches, nothing cached, no graph, fp32.

Both start from the same weights and take the same batches, without dropout; compared are the losses of all steps. So a
difference of layout (sentences laid end to end), cached states, CUDA graphs or precision shows as a number.
"""

from __future__ import annotations

import copy
import math
import traceback
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import cuda_graphs, whole_trial
from tests.lab.gpu.workload import LAYERS, changed, data_spec, encode, first, nothing
from trials.models.family import MODEL_FAMILIES
from trials.run import new_model, train_subset
from trials.seeding import numpy_stream
from trials.spec import TrialSpec
from trials.tasks.task import IGNORE
from trials.training.batching import padded_rows, shuffled_batches
from trials.training.cuda_graphs import graphs_wanted
from trials.training.optimizer import lr_share, new_optimizer

N_TRAIN, BATCH, EPOCHS = 40, 4, 2  # 20 steps
LONGEST = 48  # subwords
SMALL = {
    "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
    "vocab_size": 300, "pad_token_id": 0,
    "max_position_embeddings": LONGEST + 2,  # where positions start at 2 at the latest
}  # fmt: skip
LAST_S = 8.0  # a family is begun if so many seconds are left
EXACT, BF16, DROPOUT = 1e-4, 0.05, 0.5  # difference of a loss, of about 2.8 at the start; other random numbers
NEEDED_END_TO_END = ("nothing frozen", "cached states", "bf16", "half precision with dropout")


def run(context: PartContext, record: Record) -> None:
    """Every registered family, as far as the time allows."""
    torch.set_num_threads(1)  # threads that wait for each other make tiny products slow
    worst: dict[str, float] = {}
    works = True
    for family in sorted(MODEL_FAMILIES, key=lambda family: family not in LAYERS):  # those of the studies first
        if context.left_s() < LAST_S:
            record.note(**{family: "no time was left"})
            continue
        found = {way: _distance_or_error(spec, options) for way, spec, options in _ways(context, family)}
        record.note(**{family: found})
        for way, distance in found.items():
            value = distance if isinstance(distance, float) else math.inf
            worst[way] = max(value, worst.get(way, 0.0))
            if family in LAYERS and way in NEEDED_END_TO_END:
                works &= value <= _limit(way)
    record.note(end_to_end_works=works)
    for way, value in worst.items():
        record.check(f"largest difference of a loss over 20 steps, {way}", value, _limit(way))


def _limit(way: str) -> float:
    return {"bf16": BF16, "half precision with dropout": DROPOUT}.get(way, EXACT)


def _ways(context: PartContext, family: str) -> list[tuple[str, TrialSpec, dict[str, Any]]]:
    """What is compared: its name, the trial, and how it is run."""
    spec = _spec(context, family)
    frozen = changed(spec, freeze=first(2))
    half = "fp16" if context.on_gpu else "bf16"
    ways = [
        ("nothing frozen", spec, {}),
        ("padded", spec, {"padded": True}),
        ("cached states", frozen, {}),
        ("bf16", changed(spec, precision="bf16"), {}),
        ("half precision with dropout", changed(spec, precision=half, dropout=0.1), {}),
    ]
    if context.on_gpu and _graphs_possible(spec, context.device):
        ways += [("graphs", spec, {"graphs": True}), ("graphs on cached states", frozen, {"graphs": True})]
    return ways


def _distance_or_error(spec: TrialSpec, options: dict[str, Any]) -> float | str:
    """The largest difference of a loss; what went wrong if the trial fails, so that it does not hide the others."""
    try:
        losses = whole_trial(spec, **options)["losses"]
        return float(
            np.abs(np.array(losses) - np.array(plain_losses(changed(spec, precision="fp32", dropout=0.0)))).max()
        )
    except Exception:
        return traceback.format_exc(limit=-3)


def _graphs_possible(spec: TrialSpec, device: torch.device) -> bool:
    with cuda_graphs(True):
        return graphs_wanted(new_model(spec, len(encode(spec).labels), device).model, device, scaled=False)


def _spec(context: PartContext, family: str) -> TrialSpec:
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

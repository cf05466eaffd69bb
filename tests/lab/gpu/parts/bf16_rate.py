"""The share of the card's bf16 rate that training reaches, by counted operations."""

from __future__ import annotations

import statistics
import time

import torch

from tests.lab.gpu.cards import published_flops
from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from tests.lab.gpu.timing import timed_steps
from tests.lab.gpu.workload import changed
from trials.hardware.device import device_name, wait_for


def run(context: PartContext, record: Record) -> None:
    """Study 1's batches of 16 sentences, and batches that fill a card."""
    size, steps = (128, 2) if context.rehearse else (8192, 60)
    name, measured = device_name(context.device), product_flops(context.device, size)
    published = published_flops(name) if context.on_gpu else None
    peak = published or measured
    record.note(device=name, published_flops=published, product_flops=measured, product_size=size)
    trained = context.workload.study1()[0]
    for batch in (16, 128):
        size = min(batch, trained.train_size)
        spec = changed(trained, precision="bf16", optim={"batch_size": size})
        found = timed_steps(spec, steps, warm_up=2 if context.rehearse else 64)
        rate = found["flops"] / found["seconds"]
        record.note(**{f"batches of {size}": {"flops": rate, "share_of_the_peak": rate / peak}})


def product_flops(device: torch.device, size: int) -> float:
    """Operations a second of a square product in bf16 of random numbers, the median of ten."""
    left, right = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    seconds = []
    for _ in range(10):
        wait_for(device)
        began = time.perf_counter()
        left @ right
        wait_for(device)
        seconds.append(time.perf_counter() - began)
    return 2.0 * size**3 / statistics.median(seconds)

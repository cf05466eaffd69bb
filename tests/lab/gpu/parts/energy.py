"""The card's energy counter: idle, and under products in bf16."""

from __future__ import annotations

import time

import torch

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from trials.hardware.device import EnergyMeter, wait_for

MOST_WATTS = 1500.0  # no card draws more


def run(context: PartContext, record: Record) -> None:
    """Watts; a card whose counter cannot be read is said to have none."""
    seconds, size = (0.2, 64) if context.rehearse else (2.0, 4096)
    meter = EnergyMeter.for_device(context.device)
    meter.start()
    time.sleep(seconds)
    idle = meter.stop()
    record.note(readable=idle is not None, seconds_each=seconds)
    if idle is None:
        return
    factor = torch.randn(size, size, device=context.device).to(torch.bfloat16)
    wait_for(context.device)
    meter.start()
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        for _ in range(20):
            factor @ factor
        wait_for(context.device)
    busy = meter.stop()
    record.note(idle_watts=idle / seconds, busy_watts=None if busy is None else busy / passed)
    if busy is not None:
        record.check("watts under products", busy / passed, MOST_WATTS)
        record.check("idle watts as a share of those under products", idle / seconds / (busy / passed), 1.0)

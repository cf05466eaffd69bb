"""The machine: versions, the card, and that it computes in a process started as all others are."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import torch

from tests.lab.gpu.part_context import PartContext
from tests.lab.gpu.results import Record
from trials.hardware.device import device_name, wait_for

PACKAGES = ("torch", "transformers", "numpy", "accelerate", "pydantic", "pytest", "scipy", "ray")


def run(context: PartContext, record: Record) -> None:
    """What every figure depends on."""
    device = context.device
    record.note(
        device=device_name(device), python=platform.python_version(), cores=len(os.sched_getaffinity(0)),
        packages={name: _version(name) for name in PACKAGES},
    )  # fmt: skip
    if context.on_gpu:
        properties = torch.cuda.get_device_properties(device)
        record.note(
            memory_bytes=properties.total_memory, multiprocessors=properties.multi_processor_count,
            capability=list(torch.cuda.get_device_capability(device)), cuda=torch.version.cuda,
            tf32_matmul=torch.backends.cuda.matmul.allow_tf32,
        )  # fmt: skip
    ones = torch.ones(64, 64, device=device)
    total = (ones @ ones).sum()
    wait_for(device)
    record.check("error of a product on the device", abs(total.item() - 64.0**3), 0.0)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

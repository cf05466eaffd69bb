"""A cache of their own for tests of the frozen prefix."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from trials.record import EpochRecord
from trials.run import run_trial
from trials.spec import TrialSpec

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's cache of its own for every test."""
    monkeypatch.setenv("PERMAFROST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def records_of(spec: TrialSpec) -> list[EpochRecord]:
    return list(run_trial(spec, device=CPU))

"""Whole trials in a fresh process on a stand-in of a GPU: CUDA is initialised first, and steps are recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.trials.conftest import TrialMaker, records_of, step_losses
from trials.cache.encoding import encode_for
from trials.spec import TrialSpec
from trials.training.new_training import train_subset
from trials.training.step_rule import GRAPHS_VARIABLE

ROOT = Path(__file__).parents[3]
FROZEN: dict[str, Any] = {
    "freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}, "frozen_dropout": False,
}  # fmt: skip


def on_a_gpu(trials: Sequence[tuple[dict[str, str], TrialSpec]], cache: Path) -> list[dict[str, Any]]:
    """How trials go on the stand-in, one after the other in one process, each with its variables."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cuda_stand_in"],
        input="\n".join(json.dumps([variables, spec.model_dump(mode="json")]) for variables, spec in trials),
        capture_output=True, text=True, cwd=ROOT, check=False,
        env={**os.environ, "PERMAFROST_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, "capturable=True" in done.stderr) == (0, False), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def specs(make_any_trial: TrialMaker) -> list[TrialSpec]:
    """A whole model, a frozen one, and one that reads its mask on the host."""
    few: dict[str, Any] = {"dropout": 0.0, "train_size": 8}
    return [make_any_trial("bert", **few), make_any_trial("bert", **few, **FROZEN), make_any_trial("deberta-v2", **few)]


@pytest.fixture(scope="module")
def found(specs: list[TrialSpec], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """How a trial goes without graphs, and how all go on the same node afterwards."""
    cache = tmp_path_factory.mktemp("cuda") / "cache"
    return on_a_gpu([({GRAPHS_VARIABLE: "0"}, specs[0]), *(({}, spec) for spec in specs)], cache)


def test_cuda_is_initialised_first_and_recorded_steps_have_the_losses_of_a_cpu(
    specs: list[TrialSpec], found: list[dict[str, Any]]
) -> None:
    _, whole, frozen, deberta = found
    assert whole["calls"][:3] == ["init", "set_device", "enable_cudnn_sdp(False)"]
    checked = whole["calls"].index("CUDAGraph")
    assert whole["calls"].index("reset_peak_memory_stats") > checked
    assert whole["peak_memory_bytes"] == 1 << 30
    for spec, one in zip(specs, (whole, frozen), strict=False):
        assert (one["step_mode"], one["refused_modes"], one["padding_free"]) == ("graphs", None, 0)
        assert one["losses"] == pytest.approx(step_losses(records_of(spec)), abs=1e-5)
    assert (deberta["step_mode"], deberta["refused_modes"]) == ("padded", None)


def test_states_that_lie_on_a_gpu_to_be_read_are_no_memory_that_a_trial_needs(
    specs: list[TrialSpec], found: list[dict[str, Any]]
) -> None:
    data, width = encode_for(specs[1]), 16
    n_subwords = sum(len(data.train.examples[i].ids) for i in train_subset(specs[1], data.train))
    assert (1 << 30) - found[2]["peak_memory_bytes"] == 4 * width * n_subwords


def test_without_graphs_the_same_batches_run_step_by_step(specs: list[TrialSpec], found: list[dict[str, Any]]) -> None:
    without, again = found[:2]
    assert (without["step_mode"], "CUDAGraph" in without["calls"]) == ("padded", False)
    assert again["step_mode"] == "graphs"  # what a node keeps is no matter of the environment
    assert without["losses"] == pytest.approx(step_losses(records_of(specs[0])), abs=1e-5)

"""A launch knows its engine by a contract: each can be deleted, and one of somebody else runs the trials as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from orchestrator.api import launch
from orchestrator.engines.inline import InlineEngine
from orchestrator.execution.engine import ENGINES, Engine, EngineStartError, Job
from orchestrator.execution.recorder import Recorder
from orchestrator.store import ResultStore, open_store
from orchestrator.sweeps.cluster_spec import ClusterSpec
from tests.builders import make_spec
from tests.copies import SWEEP, copied, run
from tests.loops import loop_of
from tests.orchestrator.engines.courses import EXPECTED, Ending, course, ends_in
from tests.small_sweeps import POS, launched, write_bank

LAUNCH = ("-m", "orchestrator.launch", "--sweep", "s.yaml", "--store", "results", "--max-trials", "1", "--cluster")


def test_an_engine_that_is_registered_runs_the_trials_of_a_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    seen = list[int]()
    monkeypatch.setattr(ENGINES, "_plugins", dict(ENGINES._plugins))
    monkeypatch.setattr(ClusterSpec, "engine", "counting")

    @ENGINES.register("counting")
    @contextmanager
    def counting(job: Job) -> Iterator[Engine]:
        seen.append(len(job.plan.workload))
        with ENGINES["inline"](job) as engine:
            yield engine

    launched(tmp_path, POS.replace("seeds: [0, 1]", "seeds: [0]"))
    assert seen == [open_store(tmp_path / "results").trials(["trial_id"]).num_rows]


@pytest.fixture
def broken_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray that does not start."""

    @contextmanager
    def fails(job: Job) -> Iterator[Engine]:
        raise EngineStartError("--cluster local: Ray did not start (busy). --cluster inline runs without it.")
        yield

    monkeypatch.setattr(ENGINES, "_plugins", ENGINES._plugins | {"ray": fails})


@pytest.mark.usefixtures("broken_ray")
def test_where_ray_does_not_start_trials_run_inline_and_a_launch_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    (tmp_path / "s.yaml").write_text(f"name: small{POS}", encoding="utf-8")
    assert launch(tmp_path / "s.yaml", store=str(tmp_path / "results")).outcome.completed == 2
    assert "Ray did not start (busy)" in (said := capsys.readouterr().err)
    assert "Trials run without it, one at a time" in said
    with pytest.raises(EngineStartError, match="cluster inline runs without it"):
        launch(tmp_path / "s.yaml", store=str(tmp_path / "other"), cluster="local")


def test_trials_end_inline_as_they_do_on_ray_in_each_way_that_there_is(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store")
    store.create()
    settings: Any = SimpleNamespace(records=lambda spec, number, parts, device: course(spec, number, parts))
    specs = [make_spec(seed=seed) for seed in EXPECTED]
    loop, heard = loop_of(InlineEngine(settings, torch.device("cpu"), 1), Ending(specs), Recorder(store))
    loop.run()
    loop.recorder.close()
    assert ends_in(store) == EXPECTED
    assert sum(" again " in line for line in heard.lines) == 3


@pytest.mark.slow
def test_without_ray_trials_run_inline_and_a_local_ray_is_refused_in_a_line(tmp_path: Path) -> None:
    tree = copied(tmp_path, "ray_engine")
    (tree / "orchestrator" / "engines" / "ray.py").unlink()
    (tree / "s.yaml").write_text(SWEEP, encoding="utf-8")
    assert run(tree, *LAUNCH, "inline").returncode == 143  # at its limit
    refused = run(tree, *LAUNCH, "local")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("error: unknown 'ray'. Known: inline.")

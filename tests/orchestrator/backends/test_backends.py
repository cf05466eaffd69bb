"""A launch knows its backend by a contract: each can be deleted, and one of somebody else runs the trials as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.backends import BACKENDS
from orchestrator.backends.backend import Work
from orchestrator.store import open_store
from orchestrator.sweeps.cluster_spec import ClusterSpec
from tests.copies import SWEEP, copied, run
from tests.small_sweeps import POS, launched, write_bank

LAUNCH = ("-m", "orchestrator.launch", "--sweep", "s.yaml", "--store", "results", "--max-trials", "1", "--cluster")


def test_a_backend_that_is_registered_runs_the_trials_of_a_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bank(tmp_path / "bank", train=8, dev=4, test=2)
    seen = list[int]()
    monkeypatch.setattr(BACKENDS, "_plugins", dict(BACKENDS._plugins))
    monkeypatch.setattr(ClusterSpec, "backend", "counting")

    @BACKENDS.register("counting")
    def counting(work: Work) -> None:
        seen.append(len(work.plan.ahead))
        BACKENDS["inline"](work)

    launched(tmp_path, POS.replace("seeds: [0, 1]", "seeds: [0]"))
    assert seen == [open_store(tmp_path / "results").trials(["trial_id"]).num_rows]


@pytest.mark.slow
def test_without_ray_trials_run_inline_and_a_local_ray_is_refused_in_a_line(tmp_path: Path) -> None:
    tree = copied(tmp_path, "ray_backend")
    (tree / "orchestrator" / "backends" / "ray.py").unlink()
    (tree / "s.yaml").write_text(SWEEP, encoding="utf-8")
    assert run(tree, *LAUNCH, "inline").returncode == 143  # at its limit
    refused = run(tree, *LAUNCH, "local")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("error: unknown 'ray'. Known: inline.")

"""What each surface says of the column `cpu_s`, as JSON: run by `tests.test_measurement` in a tree that measures it.

python -m tests.measurement_walk FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from plotly.io.json import to_json_plotly
from typer.testing import CliRunner

from dashboards.views import savings
from dashboards.views.kit.drawing import LIGHT
from dashboards.views.kit.part import compute
from dashboards.views.trial_page import trial_page
from orchestrator.commands.app import app
from orchestrator.store import ResultStore
from orchestrator.store.schema import COLUMNS
from orchestrator.sweeps.load_sweep import load_sweep
from orchestrator.sweeps.plan import make_plan
from tests.dashboards.views.made import selected
from tests.small_sweeps import POS, launched, write_bank
from tests.trials.training.test_checkpoint import Memory
from trials.draft import Lookup
from trials.run import run_trial
from trials.spec import TrialSpec
from trials.training.checkpoint import Checkpoints
from trials.training.checkpoint_times import CheckpointTimes

NAME, CPU = "cpu_s", torch.device("cpu")


def resumed(spec: TrialSpec) -> list[float]:
    """The first record of a trial that is stopped in its second epoch, and both of the one that resumes it."""
    checkpoints = Checkpoints(Memory(), CheckpointTimes(seconds=0.0))
    first = next(trial := run_trial(spec, device=CPU, checkpoints=checkpoints))
    trial.close()
    again = run_trial(spec, device=CPU, checkpoints=checkpoints)
    return [getattr(record, NAME) for record in (first, *again)]


def shown(folder: Path) -> dict[str, Any]:
    """What each surface says of it."""
    write_bank(folder / "bank", train=24, dev=8, test=8)
    sweep = POS.replace("freeze: [", "freeze: [none, ")
    store: ResultStore = launched(folder, sweep)
    plan = make_plan(*load_sweep(folder / "small.yaml", ["seeds=[5]"]), store, Lookup(offline=True))
    spec, selection = plan.workload[0], selected(store)
    trial = store.trials([NAME]).to_pylist()[0]
    epochs = [row[NAME] for row in store.epochs().to_pylist() if row["trial_id"] == trial["trial_id"]]
    status = CliRunner().invoke(app, ["status", "--trials", "--json", "--store", str(folder / "results")])
    page = to_json_plotly(trial_page(selection.snapshot, trial["trial_id"], LIGHT))
    costs = compute(savings.TABLE, selection, LIGHT).table
    by_depth: dict[int, list[float]] = {}
    for row in store.trials([NAME, "freeze_depth", "seed"]).sort_by("seed").to_pylist():
        by_depth.setdefault(row["freeze_depth"], []).append(row[NAME])
    return {
        "trial": trial[NAME],
        "epochs": epochs,
        "dictionary": [COLUMNS["epochs"][NAME][1], COLUMNS["trials"][NAME][1]],
        "status": [one["costs"][NAME] for one in json.loads(status.stdout)["trials"]],
        "page": "CPU time (s)" in page,
        "trials": [by_depth[4], by_depth[0]],
        "costs": [float(costs[column].iloc[0]) for column in ("CPU time (s)", "CPU time saved (%)")],
        "resumed": resumed(spec),
    }


if __name__ == "__main__":
    sys.stdout.write(f"\n{json.dumps(shown(Path(sys.argv[1])))}\n")

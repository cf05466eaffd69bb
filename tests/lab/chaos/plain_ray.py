"""Plain Ray Tune under the same harm: a `Tuner` with its checkpoints, loggers and retries, `Tuner.restore` to go on.

python -m tests.lab.chaos.plain_ray --sweep chaos.yaml --storage FOLDER --ledger FILE

It is given what its guides advise: a checkpoint an epoch, `max_failures`, `resume_errored`. The trials are ours, and so
are their checkpoints' bytes; only who keeps, retries and restores is Ray. A ledger that every trial appends to, outside
the results, says which trials really ran.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.sweeps.sweep import expand, load_sweep
from tests.lab.chaos.compare import Tables
from tests.lab.chaos.subject import N_EPOCHS, Verdict
from trials.draft import Lookup
from trials.spec import TrialSpec

EXPERIMENT, ROWS = "plain", "result.json"
_FILE = "trial.safetensors"


class PlainRay:
    """Ray Tune on one sweep."""

    name = "plain_ray"

    def __init__(self, sweep: Path, folder: Path, disk: Path, expected: Tables | None) -> None:
        self._sweep, self._storage, self._ledger = sweep, disk / "tune", folder / "ledger.jsonl"
        self._expected = expected or {}
        self._finished: dict[str, int] = {}  # trial -> how often it had been started when it was seen finished
        self._spared: set[str] = set()

    def command(self, cluster: str) -> list[str]:
        """The first run, or the restored one."""
        return [
            sys.executable, "-m", "tests.lab.chaos.plain_ray", "--sweep", str(self._sweep),
            "--storage", str(self._storage), "--ledger", str(self._ledger), "--cluster", cluster,
        ]  # fmt: skip

    def n_rows(self) -> int:
        """Lines of all trials' results."""
        return sum(part.read_bytes().count(b"\n") for part in self.parts())

    def parts(self) -> list[Path]:
        """The trials' results that have something in them."""
        return [path for path in sorted(self._storage.glob(f"{EXPERIMENT}/*/{ROWS}")) if path.stat().st_size]

    def spoil(self, part: Path, change: Mapping[int, bytes] | int) -> None:
        """Change a trial's results in place."""
        self._spared.add(part.parent.name)
        with part.open("r+b") as file:
            if isinstance(change, int):
                file.truncate(change)
                return
            for place, new in change.items():
                file.seek(place)
                file.write(new)

    def heal(self) -> list[str]:
        """There is nothing to verify or repair with."""
        return []

    def interrupted(self) -> None:
        """Note whose last evaluation is in the results."""
        starts = self._starts()
        for trial_id, rows in self._rows()[0].items():
            if any(row.get("epoch") == N_EPOCHS for row in rows):
                self._finished.setdefault(trial_id, starts[trial_id])

    def judge(self) -> Verdict:
        """The results against the epochs of the uninterrupted run."""
        starts, (found, torn) = self._starts(), self._rows()
        again = [t for t, n in self._finished.items() if starts[t] > n and t not in self._spared]
        verdict = Verdict(finished_again=len(again), lost_intervals=self._lost())
        verdict.unsound = [f"{torn} torn lines"] if torn else []
        scores = {key: json.loads(text)["score"] for key, text in self._expected.get("epochs", {}).items()}
        made = Counter((t, row["step"]) for t, rows in found.items() for row in rows if "step" in row)
        verdict.missing = len(scores.keys() - made.keys())
        verdict.surplus = len(made.keys() - scores.keys())
        verdict.duplicate = sum(n - 1 for n in made.values())
        last = {(t, row["step"]): row.get("score") for t, rows in found.items() for row in rows if "step" in row}
        verdict.different = sum(scores[key] != last[key] for key in scores.keys() & last.keys())
        return verdict

    def _rows(self) -> tuple[dict[str, list[dict[str, Any]]], int]:
        """Each trial's rows, and how many lines are no JSON."""
        found: dict[str, list[dict[str, Any]]] = {}
        torn = 0
        for part in self.parts():
            rows = found.setdefault(part.parent.name, [])
            for line in part.read_bytes().splitlines():
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    torn += 1
        return found, torn

    def _events(self) -> list[dict[str, Any]]:
        lines = self._ledger.read_text(encoding="utf-8").splitlines() if self._ledger.exists() else []
        return [json.loads(line) for line in lines]

    def _starts(self) -> Counter[str]:
        return Counter(event["trial_id"] for event in self._events() if event["event"] == "started")

    def _lost(self) -> int:
        """The most evaluations that one start of a trial did again."""
        seen: dict[str, set[int]] = {}
        again, attempt = Counter[tuple[str, int]](), Counter[str]()
        for event in self._events():
            trial_id = event["trial_id"]
            if event["event"] == "started":
                attempt[trial_id] += 1
            elif trial_id not in self._spared and trial_id not in self._finished:
                again[trial_id, attempt[trial_id]] += event["step"] in seen.setdefault(trial_id, set())
                seen[trial_id].add(event["step"])
        return max(again.values(), default=0)


class _InMemory:
    """A keeper whose checkpoint Ray carries off."""

    def __init__(self, content: bytes | None) -> None:
        self.content, self.saved = content, False

    def load(self) -> bytes | None:
        return self.content

    def save(self, step: int, content: bytes) -> None:
        self.content, self.saved = content, True


def note(ledger: str, **event: object) -> None:
    """Append a line, whole or not at all."""
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, (json.dumps({**event, "time": time.time()}) + "\n").encode())
    finally:
        os.close(file)


def trial(config: dict[str, Any]) -> None:
    """What Tune runs: our generator, each record reported with a checkpoint."""
    import torch
    from ray import tune

    from trials.run import run_trial
    from trials.settings import CheckpointTimes
    from trials.training.checkpoint import Checkpoints

    torch.set_num_threads(1)
    spec = TrialSpec.model_validate_json(config["spec"])
    note(config["ledger"], trial_id=spec.trial_id, event="started")
    before = tune.get_checkpoint()
    keeper, told = _InMemory(None), 0
    if before is not None:
        with before.as_directory() as folder:
            keeper.content = (Path(folder) / _FILE).read_bytes()
            told = json.loads((Path(folder) / "told.json").read_text())
    for number, record in enumerate(
        run_trial(spec, checkpoints=Checkpoints(keeper, CheckpointTimes(epochs=1))), start=1
    ):
        if number <= told:  # yielded again from the checkpoint, and reported before
            continue
        note(config["ledger"], trial_id=spec.trial_id, event="evaluated", step=record.step)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / _FILE).write_bytes(keeper.content or b"")
            (Path(folder) / "told.json").write_text(json.dumps(number))
            metrics = {"step": record.step, "epoch": record.epoch, "score": record.score}
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))


def _directory(trial: Any) -> str:
    label: str = trial.config["trial_id"]
    return label


def main() -> int:
    """The command line: run, or restore and run on; 0 if no trial ended in an error."""
    parser = argparse.ArgumentParser()
    for name in ("sweep", "storage", "ledger", "cluster"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    import ray
    from ray import tune

    where = {"address": "auto"} if args.cluster == "auto" else {"include_dashboard": False}
    ray.init(logging_level="ERROR", log_to_driver=False, **where)
    path = str(Path(args.storage) / EXPERIMENT)
    trainable = tune.with_resources(trial, {"cpu": 1})
    if tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, trainable=trainable, resume_unfinished=True, resume_errored=True)
    else:
        specs = expand(*load_sweep(Path(args.sweep), []), Lookup(offline=True))
        configs = [{"spec": s.model_dump_json(), "trial_id": s.trial_id, "ledger": args.ledger} for s in specs]
        tuner = tune.Tuner(
            trainable,
            param_space=tune.grid_search(configs),
            tune_config=tune.TuneConfig(trial_dirname_creator=_directory),
            run_config=tune.RunConfig(
                name=EXPERIMENT, storage_path=args.storage, verbose=0,
                failure_config=tune.FailureConfig(max_failures=10),
                checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            ),
        )  # fmt: skip
    return int(tuner.fit().num_errors > 0)


if __name__ == "__main__":
    raise SystemExit(main())

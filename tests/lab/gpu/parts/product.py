"""The product itself, on the card it meets: launches of the starter, each a command for which nothing was prepared.

This process never starts CUDA, and imports no torch, before the launches have run. The scores are compared with those
of a CPU, in `starter_cpu_scores.json`, with the dropout that the starter has: its random numbers are others on another
device, which moves the score of one trial by 0.2 points (standard deviation; 28 trials on a CPU, padded against not).

python -m tests.lab.gpu.parts.product STORE    # writes that file from a store with the starter's trials, of a CPU
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.lab.gpu.launches import ROOT, Launched, launch, rows_of, variables_for
from tests.lab.gpu.part_context import REHEARSED, NoTimeError, PartContext
from tests.lab.gpu.results import Record, read_json, write_json

SCORES = Path(__file__).with_name("starter_cpu_scores.json")
FAULTS = Path(__file__).parents[1] / "faults"
SEEDS = ("--set", "seeds=[0,1]")
FEW = (  # a rehearsal's: four trials
    "--set", "space.data=[UD_English-EWT-sample]",
    "--set", "space.freeze=[none,{strategy: first_k, depth: 3, embeddings: true}]",
)  # fmt: skip
LARGE = (  # the whole train subset is one batch
    *FEW[:2], "--set", "space.freeze=[none]", "--set", "trial.optim.batch_size=400",
)  # fmt: skip
WITHIN = 0.5  # points; the mean of four trials, of one freeze, has a standard error of 0.1
LEFT_BYTES = 1_600_000_000  # on a card that another program fills: a context of CUDA and a part of such a batch
# Where such batches share a card: two trials, each of 2.75 GB (simulated at revision bf592d72: test_graph_memory.py)
# and a context, the context of the process that asks, and what a launch leaves in reserve.
LEFT_FOR_TWO_BYTES = 9_000_000_000
LAUNCH_S = 120.0  # of one launch
# What another program does that takes nearly all of a card, until its input ends.
FILL = """
import sys, torch
free, total = torch.cuda.mem_get_info()
taken = torch.empty(max(0, free - int(sys.argv[1])), dtype=torch.uint8, device="cuda")
print("full", flush=True)
sys.stdin.read()
"""


def run(context: PartContext, record: Record) -> None:
    """The most telling first: whether trials run and are right, then what a user does to a launch, then harm."""
    _Product(context, record).run()


class _Product:
    def __init__(self, context: PartContext, record: Record) -> None:
        from trials.hardware.machine import cuda_gpus

        self._context, self._record = context, record
        self._here = context.work / "product"
        self._here.mkdir()
        gpus = cuda_gpus()  # as a plan asks, in a process of its own
        self._on_gpu = bool(gpus.found)
        self._ray = find_spec("ray") is not None
        self._sweep = (*SEEDS, *FEW) if context.rehearse else SEEDS
        record.note(gpus=[gpu.name for gpu in gpus.found], why_no_gpu=gpus.why_none, ray=self._ray)

    def run(self) -> None:
        """Each launch is judged by itself. Raises NoTimeError."""
        self._whole("inline")
        self._nothing_to_do("inline")
        self._stopped_and_resumed("local" if self._ray else "inline")
        self._out_of_memory()
        self._broken_cuda("local" if self._ray else "inline")
        if self._ray and self._on_gpu:
            self._packed_on_a_nearly_full_card()

    def _launch(
        self, name: str, store: str, cluster: str, *words: str, fault: str = "", interrupt_after: int | None = None
    ) -> Launched:
        """One that is ended after all the time of a launch has broken its claims; one with less was not run."""
        stand_ins, most = [FAULTS] if fault else [], LAUNCH_S * (REHEARSED if self._context.rehearse else 1)
        seconds = min(most, self._context.left_s(2.0))
        done = launch(
            "--store", store, "--cluster", cluster, *words, folder=self._here, interrupt_after=interrupt_after,
            seconds=seconds,
            variables=variables_for(self._here, stand_ins) | {"PERMAFROST_GPU_FAULT": fault},
        )  # fmt: skip
        self._record.note(**{name: done.figures()})
        if done.code is None and seconds < most:
            raise NoTimeError(f"not run, as the time was up: {name}, and what would have followed")
        return done

    def _check_end(self, name: str, done: Launched, code: int) -> None:
        missed = None if done.code is None else abs(done.code - code)
        self._record.check(f"{name}: exit code, less the {code} that it should be", missed, 0)

    def _whole(self, cluster: str) -> None:
        done = self._launch(f"{cluster}, all trials", cluster, cluster, *self._sweep)
        self._check_end(f"{cluster}, all trials", done, 0)
        self._compare(cluster)

    def _nothing_to_do(self, cluster: str) -> None:
        before = rows_of(self._here / cluster)
        done = self._launch(f"{cluster}, again", cluster, cluster, *self._sweep)
        self._check_end(f"{cluster}, again", done, 0)
        self._record.check("trials that a second launch ran", len(done.ended_s), 0)
        changed = sum(a != b for a, b in zip(before, rows_of(self._here / cluster), strict=True))
        self._record.check("rows that a second launch changed", changed, 0)

    def _stopped_and_resumed(self, cluster: str) -> None:
        """Ctrl-C when the first trial has ended; the same command then runs what is left, and nothing twice."""
        store, planned = self._here / "stopped", len(self._expected())
        done = self._launch(f"{cluster}, Ctrl-C", "stopped", cluster, *self._sweep, interrupt_after=1)
        before = {row["trial_id"]: row for row in rows_of(store)}
        self._check_end(f"{cluster}, Ctrl-C", done, 130 if len(before) < planned else 0)
        done = self._launch(f"{cluster}, resumed", "stopped", cluster, *self._sweep)
        self._check_end(f"{cluster}, resumed", done, 0)
        after = {row["trial_id"]: row for row in rows_of(store)}
        again = sum(after.get(trial) != row for trial, row in before.items())
        self._record.check("finished trials that were run again", again, 0)
        self._compare("stopped")
        shares = [row["gpus"] for row in after.values()]
        self._record.note(**{f"{cluster}, resumed: shares of a GPU": sorted(set(shares))})
        if self._on_gpu and cluster == "local":
            median = statistics.median(shares) if shares else None
            self._record.check("packing: median share of a GPU that a trial had", median, 0.5)

    def _out_of_memory(self) -> None:
        """A trial that has too little memory for its batch is trained in parts."""
        one = ("--set", "seeds=[0]")
        with _FullCard(self._on_gpu) as full:
            if not full.is_full:
                self._record.note(full_card=full.said)
            fault = "" if self._on_gpu else "no_memory"
            done = self._launch("a full card", "full", "inline", *LARGE, *one, fault=fault)
            self._check_end("a full card", done, 0)
            parts = [row["accumulation"] for row in rows_of(self._here / "full") if row["state"] == "completed"]
            self._record.note(**{"a full card: parts of a batch": parts})
            whole = sum(n == 1 for n in parts) if parts else None
            self._record.check("trials on a full card whose batches were not split", whole, 0)

    def _packed_on_a_nearly_full_card(self) -> None:
        """However many of them are tried at once, all complete."""
        name = "a nearly full card, packed"
        with _FullCard(self._on_gpu, LEFT_FOR_TWO_BYTES):
            done = self._launch(name, "packed", "local", *LARGE, "--set", "seeds=[0,1,2,3]")
        self._check_end(name, done, 0)
        rows = rows_of(self._here / "packed")
        columns = ("state", "gpus", "accumulation", "peak_memory_bytes")
        self._record.note(**{f"{name}: trials": [{column: row[column] for column in columns} for row in rows]})
        median = statistics.median(row["gpus"] for row in rows) if rows else None
        self._record.check(f"{name}: median share of a GPU that a trial had", median, 0.5)

    def _broken_cuda(self, cluster: str) -> None:
        """One of two trials leaves CUDA unusable: its error reaches the store, and no other trial is lost to it."""
        words = ("--set", "seeds=[0,1]", *FEW[:2], "--set", "space.freeze=[none]")
        done = self._launch("a CUDA error", "broken", cluster, *words, fault="cuda")
        self._check_end("a CUDA error", done, 1)
        rows = rows_of(self._here / "broken")
        states = {row["seed"]: (row["state"], row["error"]) for row in rows}
        self._record.note(**{"a CUDA error: trials": {str(seed): state for seed, state in states.items()}})
        told = "device-side assert" in str(states.get(1, ("", ""))[1])
        self._record.check("a CUDA error: trials whose error is not in the store", int(not told), 0)
        other = states.get(0, ("not run yet" if cluster == "inline" else "", None))[0]  # inline it ends the launch
        self._record.check(
            "a CUDA error: other trials that were lost", int(other not in ("completed", "not run yet")), 0
        )

    def _expected(self) -> dict[str, dict[str, Any]]:
        """The CPU's scores of this run's trials."""
        scores: dict[str, dict[str, Any]] = read_json(SCORES)["trials"]
        few = ("UD_English-EWT-sample", ("none", "first 3+E"))
        wanted = (few[0],) if self._context.rehearse else tuple({trial["corpus"] for trial in scores.values()})
        return {
            trial_id: trial
            for trial_id, trial in scores.items()
            if trial["corpus"] in wanted and (not self._context.rehearse or trial["freeze"] in few[1])
        }

    def _compare(self, store: str) -> None:
        """Scores beside the CPU's, in points; a sign that is the same for all is what wrong gradients would leave."""
        expected = self._expected()
        rows = {row["trial_id"]: row for row in rows_of(self._here / store) if row["state"] == "completed"}
        found: dict[str, list[float]] = defaultdict(list)
        for trial_id, trial in expected.items():
            if trial_id in rows:
                found[trial["freeze"]].append(100 * (rows[trial_id]["best_score"] - trial["best_score"]))
        means = {freeze: statistics.fmean(values) for freeze, values in found.items()}
        self._record.note(**{f"{store}: dev scores less the CPU's, in points": dict(found)})
        self._record.check(f"{store}: trials that did not complete", len(expected.keys() - rows.keys()), 0)
        on_cpu = sum(str(row["device"]).startswith("cpu") for row in rows.values())
        if self._on_gpu:
            self._record.check(f"{store}: trials that ran on the CPU", on_cpu if rows else None, 0)
        overall = abs(statistics.fmean(v for values in found.values() for v in values)) if found else None
        self._record.check(f"{store}: mean difference of dev scores from the CPU's, in points", overall, WITHIN)
        worst = max(map(abs, means.values()), default=None)
        self._record.check(f"{store}: the largest of one freeze", worst, WITHIN)


class _FullCard:
    """Another program takes all memory of the card but `left` bytes, for as long as the block lasts.

    Attributes:
        is_full: Whether it has them.
        said: Why not.
    """

    def __init__(self, on_gpu: bool, left: int = LEFT_BYTES) -> None:
        self._words = [sys.executable, "-c", FILL, str(left)] if on_gpu else []
        self.is_full, self.said = False, "there is no card; the trials' memory is simulated"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> _FullCard:
        if self._words:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self._words, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
            assert self._process.stdout is not None
            self.is_full = self._process.stdout.readline().strip() == "full"
            if not self.is_full and self._process.stderr is not None:
                self.said = self._process.stderr.read()[-500:]
        return self

    def __exit__(self, *unused: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def scores_of(store: Path) -> dict[str, Any]:
    """What `starter_cpu_scores.json` holds, from a store."""
    rows = sorted(rows_of(store), key=lambda row: (row["corpus"], row["seed"], row["freeze_depth"], row["freeze"]))
    kept = ("corpus", "freeze", "seed", "best_score", "test_score", "padding_free")
    return {
        "about": "Scores of the starter's trials on a CPU, written by `python -m tests.lab.gpu.parts.product STORE`",
        "device": rows[0]["device"],
        "versions": dict(rows[0]["versions"]),
        "date": f"{max(row['time'] for row in rows):%Y-%m-%d}",
        "trials": {row["trial_id"]: {name: row[name] for name in kept} for row in rows},
    }


if __name__ == "__main__":
    write_json(SCORES, scores_of(Path(sys.argv[1])))
    sys.stdout.write(f"{SCORES.relative_to(ROOT)}: {len(json.loads(SCORES.read_text())['trials'])} trials\n")

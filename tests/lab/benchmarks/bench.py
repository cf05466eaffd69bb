"""Time our sweep against the same work in `transformers.Trainer`, alone and under Ray Tune.

python -m tests.lab.benchmarks.bench [--treebank FOLDER] [--rounds 2] [--out tests/lab/benchmarks/results.json]

Each contender runs in a process of its own, from start to exit, with caches of its own; they take turns, and medians
over the rounds and their ratios are kept. `work` trains the starter model, `larger` the same trials of a BERT of
22 million parameters and random weights, as a small model hides what arithmetic costs. `accuracy` pairs eight seeds of
`work` with those of Trainer. It wants an idle machine with two cores: some five minutes a round of `work`, thirty of
`larger`, and ten minutes each for `accuracy` and growth.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.lab.benchmarks import peers
from trials.hardware.device import device_name
from trials.starter import model_path

ROOT = Path(__file__).parents[3]
TREEBANK = ROOT.parent / "shared" / "data" / "UD_English-EWT"
PEERS = ("trainer", "ray_tune", "ray_tune_reused")
MANY_SEEDS = tuple(range(1, 9))


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--treebank", type=Path, default=TREEBANK)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json")
    parser.add_argument("--only", choices=["work", "larger", "accuracy", "growth"], help="one part of it")
    parser.add_argument("--model", type=Path, default=model_path(), help=argparse.SUPPRESS)
    parser.add_argument("--seeds", type=int, nargs="+", default=peers.SEEDS, help=argparse.SUPPRESS)
    parser.add_argument("--contender", choices=PEERS, help=argparse.SUPPRESS)  # what a child process is asked for
    args = parser.parse_args(argv)
    if args.contender:
        print(json.dumps(_peer(args.contender, args.treebank, args.model, args.seeds)))
        return
    results = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "work": lambda: _work(args.treebank, args.rounds, model_path()),
        "larger": lambda: _larger(args.treebank, args.rounds),
        "accuracy": lambda: _accuracy(args.treebank),
        "growth": lambda: _growth(args.treebank),
    }
    for name in [args.only] if args.only else parts:
        results[name] = {"machine": _machine(), **parts[name]()}
    args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


def _machine() -> dict[str, Any]:
    import torch

    cores = len(os.sched_getaffinity(0))
    return {"cores": cores, "device": device_name(torch.device("cpu")), "python": platform.python_version()}


def _larger(treebank: Path, rounds: int) -> dict[str, Any]:
    """The same trials of a larger model."""
    with tempfile.TemporaryDirectory() as folder:
        return _work(treebank, rounds, peers.save_larger_model(model_path(), Path(folder)))


def _accuracy(treebank: Path) -> dict[str, Any]:
    """Points of dev accuracy that ours have more than Trainer's, paired by seed, at every depth: mean and its error."""
    work = {"dropout in frozen layers, as in Trainer": "true", "no dropout in frozen layers": "false"}
    theirs = _child("ray_tune_reused", treebank, model_path(), MANY_SEEDS)[1]
    found: dict[str, Any] = {"seeds": len(MANY_SEEDS)}
    for name, frozen_dropout in work.items():
        ours = _ours(treebank, model_path(), MANY_SEEDS, f"trial.frozen_dropout={frozen_dropout}")[1]
        found[name] = {f"depth {depth}": _points_more(ours, theirs, depth) for depth in peers.DEPTHS}
    return found


def _points_more(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], depth: int) -> dict[str, float]:
    mine, other = ({t["seed"]: t["accuracy"] for t in side if t["depth"] == depth} for side in (ours, theirs))
    points = [100 * (mine[seed] - other[seed]) for seed in other]
    error = statistics.stdev(points) / len(points) ** 0.5
    return {"mean": round(statistics.fmean(points), 2), "standard_error": round(error, 2)}


def _work(treebank: Path, rounds: int, model: Path) -> dict[str, Any]:
    """The twelve trials, ours before each of the peers in turn."""
    times: dict[str, list[float]] = {name: [] for name in ("ours", *PEERS)}
    trials: dict[str, list[dict[str, Any]]] = {name: [] for name in times}
    for _ in range(rounds):
        for name in PEERS:
            for contender in ("ours", name):
                seconds, found = _ours(treebank, model) if contender == "ours" else _child(name, treebank, model)
                times[contender].append(seconds)
                trials[contender] += found
                print(f"{contender}: {seconds:.1f} s", file=sys.stderr, flush=True)
    wall = {name: round(statistics.median(seconds), 1) for name, seconds in times.items()}
    return {
        "wall_s": wall,
        "all_wall_s": {name: [round(s, 1) for s in seconds] for name, seconds in times.items()},
        "times_faster": {name: round(wall[name] / wall["ours"], 2) for name in PEERS},
        "train_s": {
            name: {f"depth {depth}": round(_train_s(found, depth), 2) for depth in peers.DEPTHS}
            for name, found in trials.items()
        },
        "train_times_faster_than_on_a_core_of_ray_tune": {
            f"depth {depth}": round(_train_s(trials["ray_tune"], depth) / _train_s(trials["ours"], depth), 1)
            for depth in peers.DEPTHS
        },
        "accuracy": {
            name: {f"depth {depth}": _accuracies(found, depth) for depth in peers.DEPTHS}
            for name, found in trials.items()
        },
    }


def _growth(treebank: Path) -> dict[str, Any]:
    """The same work with ten times as many seeds: what a trial more costs, and what is paid once a sweep."""
    few, many = (_ours(treebank, model_path(), range(1, n + 1))[0] for n in (len(peers.SEEDS), 10 * len(peers.SEEDS)))
    n = len(peers.DEPTHS) * len(peers.SEEDS)
    each = (many - few) / (9 * n)
    return {
        f"{n}_trials_s": round(few, 1), f"{10 * n}_trials_s": round(many, 1), "grows_times": round(many / few, 2),
        "a_trial_s": round(each, 2), "once_s": round(few - n * each, 1),
    }  # fmt: skip


def _train_s(trials: list[dict[str, Any]], depth: int) -> float:
    return statistics.median(float(trial["train_s"]) for trial in trials if trial["depth"] == depth)


def _accuracies(trials: list[dict[str, Any]], depth: int) -> dict[str, float]:
    """Mean over trials after the last epoch, by seed, so that contenders can be paired."""
    found = {t["seed"]: t["accuracy"] for t in trials if t["depth"] == depth}
    return {"mean": round(statistics.fmean(found.values()), 4), **{f"seed {s}": round(a, 4) for s, a in found.items()}}


def _ours(
    treebank: Path, model: Path, seeds: Iterable[int] = peers.SEEDS, *changes: str
) -> tuple[float, list[dict[str, Any]]]:
    """`permafrost launch`, with nothing warm: no store, no tokens, no prefix."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "orchestrator.launch", "--sweep", str(ROOT / "configs" / "sweeps" / "benchmark.yaml"),
            "--store", f"{folder}/store", "--set", f"trial.data.folder={treebank}", "--set", f"trial.model={model}",
            "--set", f"seeds={list(seeds)}", *(word for change in changes for word in ("--set", change)),
        ]  # fmt: skip
        started = time.perf_counter()
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PERMAFROST_CACHE": f"{folder}/cache"},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        seconds = time.perf_counter() - started

        from orchestrator.store import open_store

        store = open_store(f"{folder}/store")
        last = {row["trial_id"]: row["accuracy"] for row in store.epochs().to_pylist()}  # in order of steps
        trials = store.trials().to_pylist()
        found = [
            {
                "depth": t["freeze_depth"],
                "seed": t["seed"],
                "accuracy": last[t["trial_id"]],
                "train_s": t["train_s"] + t["eval_s"],  # as `Trainer.train` counts, which evaluates in between
            }
            for t in trials
        ]
        assert len(found) == len(peers.DEPTHS) * len(list(seeds))
        return seconds, found


def _child(
    name: str, treebank: Path, model: Path, seeds: Iterable[int] = peers.SEEDS
) -> tuple[float, list[dict[str, Any]]]:
    command = [
        sys.executable, "-m", "tests.lab.benchmarks.bench", "--contender", name, "--treebank", str(treebank),
        "--model", str(model), "--seeds", *map(str, seeds),
    ]  # fmt: skip
    started = time.perf_counter()
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    return seconds, json.loads(done.stdout.strip().splitlines()[-1])


def _peer(name: str, treebank: Path, model: Path, seeds: Iterable[int]) -> list[dict[str, Any]]:
    work = peers.configs(treebank, model, seeds=tuple(seeds))
    if name == "trainer":
        found = peers.plain_loop(work, threads=2)
    else:
        found = peers.ray_tune(work, reuse_actors=name == "ray_tune_reused")
    return [
        {"depth": config["depth"], "seed": config["seed"], **result} for config, result in zip(work, found, strict=True)
    ]


if __name__ == "__main__":
    main()

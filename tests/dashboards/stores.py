"""Stores of trials that nobody trained: what a sweep of any size leaves, with numbers made up in a plausible way.

python -m tests.dashboards.stores FOLDER --trials 20000 --evaluations 50
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from orchestrator.store import ResultStore, open_store
from orchestrator.store.plans import SweepPlan, spec_columns
from orchestrator.store.schema import TABLES
from tests.builders import make_spec
from trials.spec import TrialSpec

START = 1_790_000_000.0
LAYER_PARAMS, EMBEDDING_PARAMS, HEAD_PARAMS = 7_087_872, 91_812_096, 13_073
N_LAYERS = 6
STRATEGIES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("none", ()), ("first_k", (0, 1)), ("first_k", (0, 1, 2, 3)), ("alternating", (0, 2, 4)),
    ("all_encoder", (0, 1, 2, 3, 4, 5)),
)  # fmt: skip


@dataclass
class Invented:
    """What a made-up trial gives; a test changes the parts that it is about.

    Attributes:
        score: Final dev score of a spec; `noise` is added to it, the same for a seed at every depth but for a third.
        state: How a trial ended; None for one that has no row.
    """

    score: Callable[[TrialSpec], float] = lambda spec: 0.9 - 0.002 * spec.freeze.depth**1.7 - 1.0 / spec.train_size
    noise: float = 0.004
    state: Callable[[TrialSpec], str | None] = lambda spec: "completed"
    evaluations: int = 5
    epochs: float = 5.0
    device: Callable[[TrialSpec], str] = lambda spec: "cpu"
    changes: dict[str, Any] = field(default_factory=dict)


def specs(
    *,
    seeds: Sequence[int] = range(3),
    train_sizes: Sequence[int] = (200, 800),
    strategies: Sequence[tuple[str, tuple[int, ...]]] = STRATEGIES,
    embeddings: Sequence[bool] = (False,),
    **changes: Any,
) -> list[TrialSpec]:
    """Every combination."""
    base = make_spec(**changes)
    return [
        _frozen(base, strategy, layers, embeddings=frozen).model_copy(update={"train_size": size, "seed": seed})
        for size in train_sizes
        for strategy, layers in strategies
        for frozen in embeddings
        if not (frozen and strategy == "none")
        for seed in seeds
    ]


def _frozen(base: TrialSpec, strategy: str, layers: tuple[int, ...], *, embeddings: bool) -> TrialSpec:
    freeze = {"strategy": strategy, "layers": layers, "embeddings": embeddings}
    return base.model_copy(update={"freeze": base.freeze.model_copy(update=freeze)})


def write_store(
    folder: Path,
    trials: Sequence[TrialSpec],
    invented: Invented | None = None,
    *,
    sweep: str = "made-up",
    started: float = START,
    tags: bool = True,
) -> ResultStore:
    """A store with a plan of the trials and the rows of those that are said to have any."""
    made = invented or Invented()
    store = open_store(folder, must_exist=False)
    plan = SweepPlan(sweep, started, "made-up.yaml", tuple((s.trial_id, s.model_dump(mode="json")) for s in trials))
    store.add_plan(plan)
    append(store, trials, made, tags=tags)
    return store


def append(store: ResultStore, trials: Sequence[TrialSpec], invented: Invented, *, tags: bool = True) -> None:
    """Commit the rows of some trials."""
    ended = [(n, spec, state) for n, spec in enumerate(trials) if (state := invented.state(spec)) is not None]
    results = [_trial(n, spec, state, invented) for n, spec, state in ended]
    for table, rows in (
        (
            "epochs",
            [
                row
                for result, (_, spec, _) in zip(results, ended, strict=True)
                for row in _epochs(result, spec, invented)
            ],
        ),
        ("tags", [row for result in results for row in _tags(result)] if tags else []),
        ("trials", results),
    ):
        parts = store._parts[table]
        parts.append_table(pa.Table.from_pylist(rows, schema=TABLES[table]))


def _rng(*words: object) -> np.random.Generator:
    return np.random.default_rng([int.from_bytes(str(word).encode()[:8].ljust(8, b"0")) % 2**32 for word in words])


def _trial(number: int, spec: TrialSpec, state: str, made: Invented) -> dict[str, Any]:
    shared, own = _rng("seed", spec.seed, spec.train_size), _rng("own", spec.trial_id)
    score = made.score(spec) + made.noise * float(shared.standard_normal() + own.standard_normal() / 3)
    score = float(np.clip(score, 0.0, 1.0))
    ended = spec.freeze.depth // (2 if spec.thaw_every else 1)
    learning = N_LAYERS * (spec.model.n_layers - ended) / spec.model.n_layers
    trainable = int(learning * LAYER_PARAMS) + HEAD_PARAMS + (0 if spec.freeze.embeddings else EMBEDDING_PARAMS)
    done = state == "completed"
    speed = 0.02 * spec.train_size / 16 * (1 + 0.5 * learning) * float(np.exp(0.03 * own.standard_normal()))
    return {
        **spec_columns(spec),
        "attempt": 1,
        "state": state,
        "total_params": N_LAYERS * LAYER_PARAMS + EMBEDDING_PARAMS + HEAD_PARAMS,
        "trainable_params": trainable,
        "best_score": score if done else None,
        "best_epoch": made.epochs if done else None,
        "last_epoch": made.epochs if done else 1.0,
        "test_score": float(np.clip(score - 0.004, 0.0, 1.0)) if done else None,
        "best_metrics": [("accuracy", score), ("macro_f1", score * 0.9)] if done else None,
        "test_metrics": [("accuracy", score - 0.004), ("macro_f1", score * 0.9 - 0.004)] if done else None,
        "constant_score": 500 / 820 if done else None,
        "loss_fall": 0.9 if done else None,
        "setup_s": 0.4,
        "prefix_s": 0.1 if spec.freeze.embeddings else 0.0,
        "prefix_layers": 0,
        "train_s": speed,
        "eval_s": 0.3 * speed,
        "frozen_layers": ended,
        "mean_frozen_layers": 1.6 if spec.thaw_every else ended,
        "training_flops": 1e9 * spec.train_size * (1 + learning),
        "peak_memory_bytes": int(4e8 + 12 * trainable),
        "device": made.device(spec),
        "gpus": 0.0,
        "accumulation": 1,
        "threads": 1,
        "git_commit": "0" * 40,
        "versions": [("torch", "2.13.0"), ("transformers", "5.23.0"), ("python", "3.11")],
        "error": None if done else f"RuntimeError: a made-up reason, seed {spec.seed}",
        "time": int((START + 10.0 * number) * 1e6),
    }


def _epochs(result: dict[str, Any], spec: TrialSpec, made: Invented) -> Iterator[dict[str, Any]]:
    last = result["best_score"] if result["best_score"] is not None else 0.3
    n = made.evaluations if result["state"] == "completed" else 1
    steps = max(1, round(spec.train_size / 16 * made.epochs / made.evaluations))
    share = 1 - np.exp(-4 * np.arange(1, n + 1) / made.evaluations)
    for k in range(1, n + 1):
        score = last * float(share[k - 1] / share[-1])
        loss = 0.1 + 2.0 * float(1 - share[k - 1])
        yield {
            "trial_id": spec.trial_id,
            "attempt": 1,
            "step": steps * k,
            "epoch": made.epochs * k / made.evaluations,
            "train_loss": loss,
            "step_losses": [loss + 0.1 / i for i in range(1, min(steps, 8) + 1)],
            "dev_loss": loss * 1.1,
            "score": score,
            "accuracy": score,
            "macro_f1": 0.9 * score,
            "examples_seen": 16 * steps * k,
            "lr": 5e-5 * (1 - k / (n + 1)),
            "setup_s": result["setup_s"] if k == 1 else 0.0,
            "prefix_s": 0.0,
            "train_s": result["train_s"] / n,
            "eval_s": result["eval_s"] / n,
            "peak_memory_bytes": result["peak_memory_bytes"],
            "time": result["time"],
        }


def _tags(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if result["best_score"] is None:
        return
    for split in ("dev", "test"):
        for tag, support, easy in (("NOUN", 500, 0.0), ("VERB", 300, 0.01), ("X", 20, -0.3)):
            f1 = float(np.clip(result["best_score"] + easy, 0.0, 1.0))
            yield {
                "trial_id": result["trial_id"], "attempt": 1, "split": split, "level": "token", "tag": tag,
                "support": support, "predicted": support, "correct": int(f1 * support), "precision": f1, "recall": f1,
                "f1": f1,
            }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """A large store in one part a table, as after compaction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=40)
    args = parser.parse_args(argv)
    sizes = [200 * (k + 1) for k in range(max(1, args.trials // (args.seeds * len(STRATEGIES))))]
    chosen = specs(seeds=range(args.seeds), train_sizes=sizes)[: args.trials]
    made = Invented(evaluations=args.evaluations)
    store = write_store(args.folder, chosen[:0], made)
    store.add_plan(
        SweepPlan("large", START, "large.yaml", tuple((s.trial_id, s.model_dump(mode="json")) for s in chosen))
    )
    for start in range(0, len(chosen), 2000):
        append(store, chosen[start : start + 2000], made)
    store.compact()


if __name__ == "__main__":
    main()

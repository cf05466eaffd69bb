"""Sweeps and clusters as they should be: all settings there are, so put together that none must be refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.sweeps.search_spec import COSTS
from tests.lab.fuzz.odd_values import Raw

Tree = dict[str, Any]

VALUES: dict[str, Callable[[random.Random], Any]] = {
    "optim.lr": lambda rng: rng.choice((0.1, 1e-3, Raw("5e-5"), Raw("1e-3"), 1)),
    "optim.head_lr": lambda rng: rng.choice((None, 0.5, Raw("1e-2"))),
    "optim.batch_size": lambda rng: rng.randint(1, 64),
    "optim.epochs": lambda rng: rng.randint(1, 9),
    "optim.weight_decay": lambda rng: rng.random(),
    "optim.warmup": lambda rng: rng.random() * 0.9,
    "optim.max_grad_norm": lambda rng: rng.choice((None, 1.0, 2)),
    "optim.schedule": lambda rng: rng.choice(("linear", "constant")),
    "precision": lambda rng: rng.choice(("fp32", "bf16")),
    "max_length": lambda rng: rng.randint(4, 128),
    "lowercase": lambda rng: rng.random() < 0.5,
    "eval_every": lambda rng: rng.choice((1, 0.5, 0.25)),
    "dropout": lambda rng: rng.choice((None, 0, 0.1)),
    "frozen_dropout": lambda rng: rng.random() < 0.5,
    "batching": lambda rng: rng.choice(("random", "length")),
    "subset_seed": lambda rng: rng.choice((None, 0, 7)),
    "order_seed": lambda rng: rng.choice((None, 0, 7)),
    "train_size": lambda rng: rng.randint(1, 6),
}


def _freeze(rng: random.Random) -> Any:
    depth, embeddings = rng.randint(0, 6), rng.random() < 0.5
    layers = sorted(rng.sample(range(6), rng.randint(0, 3)))
    return rng.choice(
        (
            "none", "all_encoder", {"strategy": "first_k", "depth": depth, "embeddings": embeddings}, "alternating",
            {"strategy": "last_k", "depth": depth}, {"strategy": "layers", "layers": layers}, {"strategy": "none"},
            {"strategy": "first_k", "depth": -1},
        )
    )  # fmt: skip


def right_sweep(rng: random.Random, corpora: dict[str, Path]) -> Tree:
    """A sweep on one of the corpora, which are given by task; one in two has no more than a grid or random cells."""
    task = rng.choice(sorted(corpora))
    tree: Tree = {
        "name": f"sweep-{rng.randint(0, 99)}",
        "trial": {"task": task, "data": {"folder": str(corpora[task])}},
    }
    tree["space"] = {}
    for key, make in VALUES.items():
        if rng.random() < 0.16:
            tree["space"][key] = [make(rng), make(rng)]
        elif rng.random() < 0.29:
            _put(tree["trial"], key, make(rng))
    tree["space"]["freeze"] = [_freeze(rng) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.4:
        tree["seeds"] = rng.sample(range(2**32), rng.randint(1, 3))
    decided = rng.choice((None, None, None, _scheduled, _chosen))
    if decided is not _chosen and rng.random() < 0.4:
        _searched(rng, tree)
    if decided is not None:
        decided(rng, tree)
    for key, maker in BESIDE.items():
        if rng.random() < 0.1:
            tree[key] = maker(rng)
    return tree


def _searched(rng: random.Random, tree: Tree) -> None:
    """Cells that are drawn, some of them from distributions, one inside a choice."""
    kind = rng.choice(("random", "sobol", "tpe", "pareto"))
    search: Tree = {"kind": kind, "cells": rng.randint(1, 14), "seed": rng.randint(0, 9)}
    if kind in ("tpe", "pareto"):
        search["startup"] = rng.randint(1, 6)
        tree["space"].pop("train_size", None)  # scores of different ones do not compare
        tree["space"].pop("order_seed", None)  # a replicate is not a setting that a search can choose
    if kind == "pareto":
        costs = [cost for cost in COSTS if cost != "peak_memory_bytes"]  # which a trial on a CPU does not have
        search["objectives"] = rng.sample(["score", *costs], rng.randint(2, 3))
    if rng.random() < 0.5:
        tree["space"]["optim.lr"] = {"log_uniform": [Raw("1e-5"), 0.1]}
    if rng.random() < 0.5:
        tree["space"]["freeze"].append({"strategy": "first_k", "depth": {"int_uniform": [1, "layers"]}})
    tree["search"] = search


def _scheduled(rng: random.Random, tree: Tree) -> None:
    schedule = {"kind": "asha", "by": rng.choice(("epochs", "examples"))}
    tree["schedule"] = {**schedule, "first": rng.choice((0.25, 0.5)), "factor": rng.choice((2, 3, 2.5))}
    if rng.random() < 0.5 and "train_size" in tree["space"]:
        tree["schedule"]["each_group"] = True
    else:
        tree["space"].pop("train_size", None)


def _chosen(rng: random.Random, tree: Tree) -> None:
    """Only the freeze varies, from none to deep."""
    for key, (value, _) in ((key, values) for key, values in tree["space"].items() if key in VALUES):
        _put(tree["trial"], key, value)
    embeddings = rng.random() < 0.5
    depths = sorted(rng.sample(range(1, 7), rng.randint(1, 4)))
    deeper = [{"strategy": "first_k", "depth": depth, "embeddings": embeddings} for depth in depths]
    tree["space"] = {"freeze": ["none", *deeper]}
    tree["seeds"] = rng.sample(range(2**32), rng.randint(3, 9))
    goal = {"tolerance": rng.choice((0.01, 0.5, 30)), "confidence": rng.choice((0.51, 0.95)), "min_seeds": 3}
    tree["goal"] = {"choose_depth": goal | rng.choice(({}, {"trials": rng.randint(1, 60)}))}


BESIDE: dict[str, Callable[[random.Random], Any]] = {
    "resources": lambda rng: {"cpus": rng.randint(1, 4), "gpus": rng.choice((0, 0.5, 1, "packed")), "device": "any"},
    "predictions": lambda rng: rng.choice(("auto", "all", "none")),
    "checkpoint": lambda rng: rng.choice(("auto", {"epochs": 0.5}, {"minutes": 10, "epochs": 2}, {"auto": True})),
    "limits": lambda rng: {"lost": rng.randint(0, 9), "unavailable": rng.randint(0, 9), "alike": rng.randint(1, 9)},
    "watch": lambda rng: {"log": "sweep.jsonl"},
}


def right_cluster(rng: random.Random) -> Tree:
    """A file that `--cluster` takes."""
    tree = {key: make(rng) for key, make in CLUSTER.items() if key == "address" or rng.random() < 0.4}
    return tree | {key: BESIDE[key](rng) for key in ("resources", "limits", "watch") if rng.random() < 0.4}


CLUSTER: dict[str, Callable[[random.Random], Any]] = {
    "address": lambda rng: rng.choice(("local", "auto", "inline", "http://head:8265", "https://[::1]:8265/")),
    "concurrency": lambda rng: rng.choice((None, 1, 64)),
    "store": lambda rng: rng.choice(("results", "s3://bucket/a/b", "gs://bucket", None)),
    "environment": lambda rng: {"packages": rng.choice(("installed", "pinned")), "variables": {"HF_HOME": "/x"}},
    "prices": lambda rng: {
        "currency": "EUR", "cpu_hour": rng.random(), "gpu_hour": rng.choice((2, {"A100": 2.1, "T4": 0.3}))
    },
}  # fmt: skip


def _put(tree: Tree, key: str, value: Any) -> None:
    *above, last = key.split(".")
    for part in above:
        tree = tree.setdefault(part, {})
    tree[last] = value

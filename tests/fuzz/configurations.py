"""Sweeps in YAML by number: right ones, nearly right ones and attacks, each planned as `permafrost launch` would."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.sweep import expand, load_sweep
from tests.builders import write_texts, write_treebank
from tests.fuzz.judging import Verdict, contents, judged
from tests.fuzz.odd_values import Raw, as_yaml, odd_value
from trials.draft import Lookup
from trials.spec import TrialSpec

LIMIT_S = 10.0
Tree = dict[str, Any]


class Configuration(NamedTuple):
    """A sweep's file.

    Attributes:
        kind: `right`, which must work; `spoiled`, of which some values are odd; `edited`, of which the text is damaged
            too; `attack`.
        content: The file's bytes.
        settings: What `--set` puts over it.
    """

    kind: str
    content: bytes
    settings: tuple[str, ...] = ()


class Configurations:
    """Makes and plans configurations, with one lookup for all, as within a plan.

    Attributes:
        folder: Where the corpora and the file are.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self._bank = write_treebank(folder / "bank", train=6, dev=2, test=2)
        self._texts = write_texts(folder / "texts", train=6, dev=4, test=2)
        self._lookup = Lookup(offline=True)
        self._before = contents(folder)

    def make(self, number: int) -> Configuration:
        """The configuration of this number, always the same."""
        rng = random.Random(f"configuration {self.seed} {number}")
        if rng.random() < 0.01:
            return Configuration("attack", rng.choice(ATTACKS)(rng).replace("BANK", str(self._bank)).encode())
        tree = self._right(rng)
        if rng.random() < 0.2:
            return Configuration("right", _text(rng, tree).encode())
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _spoil(rng, tree)
        settings = tuple(_setting(rng) for _ in range(rng.choice((0, 0, 0, 0, 1, 2))))
        content = _text(rng, tree).encode("utf-8", "surrogatepass")
        if rng.random() < 0.25:
            return Configuration("edited", _edited(rng, content), settings)
        return Configuration("spoiled", content, settings)

    def try_out(self, configuration: Configuration) -> Verdict:
        """Plan it and judge what comes of it."""
        path = self.folder / "sweep.yaml"
        path.write_bytes(configuration.content)
        verdict = judged(lambda: self._plan(path, configuration.settings), limit_s=LIMIT_S)
        path.unlink()
        if contents(self.folder) != self._before:
            return Verdict("finding", "planning it changed the folder")
        if configuration.kind == "right" and verdict.word == "refused":
            return Verdict("finding", f"a right configuration is refused: {verdict.text[:300]}")
        return verdict

    def _plan(self, path: Path, settings: tuple[str, ...]) -> None:
        specs = expand(*load_sweep(path, list(settings)), self._lookup)
        assert specs, "an empty plan"
        assert len({spec.trial_id for spec in specs}) == len(specs), "a trial twice"
        for spec in specs[:2]:  # a plan is kept as JSON and read again
            again = TrialSpec.model_validate_json(spec.model_dump_json())
            assert (again, again.trial_id) == (spec, spec.trial_id), "another trial after writing and reading"

    def _right(self, rng: random.Random) -> Tree:
        task, data = rng.choice((("pos", self._bank), ("sst2", self._texts), ("stsb", self._texts)))
        trial: Tree = {"task": task, "data": {"folder": str(data)}}
        choices = {key: make(rng) for key, make in RIGHT.items() if rng.random() < 0.4}
        space: Tree = {}
        for key, value in choices.items():
            if rng.random() < 0.4:
                space[key] = [value, RIGHT[key](rng)]
            else:
                _put(trial, key, value)
        freezes = [_freeze(rng) for _ in range(rng.randint(1, 3))]
        tree: Tree = {"name": f"sweep-{rng.randint(0, 99)}", "trial": trial, "space": space | {"freeze": freezes}}
        if rng.random() < 0.4:
            tree["seeds"] = rng.sample(range(2**32), rng.randint(1, 3))
        if rng.random() < 0.2:
            tree["search"] = {"kind": "random", "cells": rng.randint(1, 6), "seed": rng.randint(0, 9)}
            tree["space"] |= {"optim.lr": {"log_uniform": [Raw("1e-5"), 0.1]}}
            trial.get("optim", {}).pop("lr", None)
        if rng.random() < 0.2:
            tree["resources"] = {"cpus": rng.randint(1, 4), "gpus": rng.choice((0, 0.5, 1, "packed"))}
        if rng.random() < 0.2:
            tree["predictions"] = rng.choice(("auto", "all", "none"))
        return tree


RIGHT: dict[str, Callable[[random.Random], Any]] = {
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


def _put(tree: Tree, key: str, value: Any) -> None:
    *above, last = key.split(".")
    for part in above:
        tree = tree.setdefault(part, {})
    tree[last] = value


# --- What is done to a right one


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key or index) of everything in it."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inside):
        yield tree, key
        yield from _places(value)


UNKNOWN = (
    "optm",
    "lr",
    "trial",
    "seed",
    "optim.lr.x",
    "",
    ".",
    "..",
    "data.folder",
    "freeze.depth",
    "cases",
    "<<",
    "é",
)
KNOWN = (
    "lora", "thaw_every", "optim.layer_decay", "score", "optim", "optim.embedding_updates", "data", "model", "freeze",
    "first", "columns", "data.first", "data.columns", "data.scheme", "data.format", "data.train", "data.ud",
    "data.release", "data.hub", "data.revision", "data.splits", "data.name", "lora.rank", "lora.targets",
    "model.folder", "model.hub", "model.revision", "model.allow_pickle", *RIGHT,
)  # fmt: skip


def _spoil(rng: random.Random, tree: Tree) -> None:
    container, key = rng.choice(list(_places(tree)))
    parts = [part for part in (tree, tree.get("trial"), tree.get("space"), container) if isinstance(part, dict)]
    match rng.randint(0, 9):
        case 0 | 1 | 2 | 3:
            container[key] = odd_value(rng)
        case 4:
            del container[key]
        case 5:
            container[key] = rng.choice(([container[key]], {"value": container[key]}, str(container[key]), None))
        case 6:
            rng.choice(parts)[rng.choice(UNKNOWN)] = odd_value(rng)
        case 7 | 8:
            target = rng.choice(parts)
            value = odd_value(rng)
            target[rng.choice(KNOWN)] = [value] if target is tree.get("space") and rng.random() < 0.8 else value
        case 9:
            cases = [{rng.choice(KNOWN): odd_value(rng)} for _ in range(rng.randint(1, 3))]
            tree["space"] = {"cases": cases} | (tree["space"] if isinstance(tree.get("space"), dict) else {})


def _setting(rng: random.Random) -> str:
    keys = ("seeds", "name", "name.x", "trial", "space", "space.freeze", "search", "resources.gpus", "", ".", "a..b")
    key = rng.choice((*keys, *(f"trial.{known}" for known in KNOWN), *(f"space.{known}" for known in KNOWN)))
    return f"{key}{rng.choice(('=', '=', '=', '=', '', '=='))}{as_yaml(odd_value(rng))}"


def _text(rng: random.Random, tree: Tree) -> str:
    """A line a key, and for mappings sometimes a line a key of theirs."""
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict) and value and rng.random() < 0.5:
            lines += [f"{as_yaml(key)}:", *(f"  {as_yaml(k)}: {as_yaml(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key or as_yaml(key)}: {as_yaml(value)}")
    return "\n".join(lines) + "\n"


BYTES = (
    b"\t", b"\0", b"\r", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"- ", b": ", b"&a ", b"*a", b"<<: *a",
    b"---\n", b"...\n", b"%YAML 1.1\n", b"# ", b"|", b">", b"!!", b"'", b'"', b"[", b"}", b"@", b"`", b"?",
)  # fmt: skip


def _edited(rng: random.Random, content: bytes) -> bytes:
    for _ in range(rng.randint(1, 3)):
        at, lines = rng.randrange(len(content) + 1), content.split(b"\n")
        n = rng.randrange(len(lines))
        match rng.randint(0, 8):
            case 0 | 1:
                content = content[:at] + rng.choice(BYTES) + content[at:]
            case 2:
                content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
            case 3:
                content = content[:at]
            case 4:
                content = b"\n".join([*lines[: n + 1], *lines[n:]])
            case 5:
                content = b"\n".join([*lines[:n], *lines[n + 1 :]])
            case 6:
                content = content.replace(b"\n", b"\r\n")
            case 7:
                content = content.replace(b"  ", b"\t")
            case 8:
                content = rng.choice(
                    (content.decode("utf-8", "replace").encode("utf-16"), b"\xef\xbb\xbf" + content, b"")
                )
    return content


# --- Attacks


def _laughs(rng: random.Random) -> str:
    """Each line ten times the one before it."""
    levels = rng.randint(3, 30)
    lines = ["l0: &l0 [ha]"] + [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join([f"name: a\ntrial: {{data: {{folder: BANK}}, x: *l{levels - 1}}}", *lines][:: rng.choice((1, -1))])


def _merges(rng: random.Random) -> str:
    levels = rng.randint(3, 30)
    lines = ["m0: &m0 {lr: 1}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, levels)]
    return "\n".join([*lines, f"name: a\ntrial: {{data: {{folder: BANK}}, optim: *m{levels - 1}}}"])


def _grid(rng: random.Random) -> str:
    keys = rng.sample(sorted(RIGHT), rng.randint(7, 12))
    axes = "".join(f"  {key}: [{', '.join(map(str, range(1, 13)))}]\n" for key in keys)
    return f"name: a\ntrial: {{data: {{folder: BANK}}}}\nspace:\n{axes}"


def _cells(rng: random.Random) -> str:
    cells = rng.choice((10**6, 10**9, 2**63 - 1, 10**30, "1e300", "1.0e+300"))
    space = rng.choice(("{}", "{optim.lr: {uniform: [0.1, 1]}}", "{optm: {uniform: [0, 1]}}"))
    return f"name: a\ntrial: {{data: {{folder: BANK}}}}\nspace: {space}\nsearch: {{kind: random, cells: {cells}}}\n"


def _seeds(rng: random.Random) -> str:
    seeds = ", ".join(map(str, range(rng.choice((30_000, 100_001)))))
    axis = ", ".join(map(str, range(1, 9)))
    return f"name: a\ntrial: {{data: {{folder: BANK}}}}\nspace: {{optim.epochs: [{axis}]}}\nseeds: [{seeds}]\n"


def _large(rng: random.Random) -> str:
    what = rng.choice(('"' + "x" * 200_000 + '"', "[" + "1, " * 60_000 + "1]", "k" * 90_000, "[1]\n#" + " " * 2**18))
    return f"name: a\ntrial: {{data: {{folder: BANK}}}}\nspace: {{freeze: [none]}}\nx: {what}\n"


def _brackets(rng: random.Random) -> str:
    """What takes the parser the longest."""
    depth = rng.choice((45, 60, 250))
    nests = ", ".join(["[" * depth + "]" * depth] * (60_000 // depth))
    return f"name: a\ntrial: {{data: {{folder: BANK}}}}\nx: [{nests}]\n"


def _many_copies(rng: random.Random) -> str:
    junk = ", ".join(map(str, range(rng.choice((1_900, 10_000)))))
    axes = ", ".join(map(str, range(1, 2_000)))
    return f"name: a\ntrial: {{data: {{folder: BANK}}, junk: [{junk}]}}\nspace: {{optim.epochs: [{axes}]}}\n"


def _many_mistakes(rng: random.Random) -> str:
    values = ", ".join(f"-{n}" for n in range(1, rng.choice((90, 5_000))))
    return f"name: a\ntrial: {{data: {{folder: BANK}}}}\nspace: {{optim.lr: [{values}]}}\nseeds: [{values}]\n"


def _hidden_grid(rng: random.Random) -> str:
    """Another key is wrong, so the space is looked over for the sake of the message."""
    return _grid(rng) + rng.choice(("sedes: [1]\n", "seeds: [-1]\n", "search: {kind: random}\n"))


ATTACKS: tuple[Callable[[random.Random], str], ...] = (
    _laughs, _merges, _grid, _cells, _seeds, _large, _brackets, _many_copies, _many_mistakes, _hidden_grid,
)  # fmt: skip

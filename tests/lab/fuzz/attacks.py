"""Sweeps that are made to hang a parser, to fill the memory or to plan without end; BANK stands for a treebank."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.lab.fuzz.right import VALUES


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
    keys = rng.sample(sorted(VALUES), rng.randint(7, 12))
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

"""The long form: python -m tests.lab.fuzz --configurations 100000 --files 2000 --models 1000 --environments 200
--names 2000 --seed 0

Prints one JSON object with the counts by outcome, and exits 1 at any finding. Every input has a number, and is tried in
a process that may die or hang without taking the others with it. One input again: --only configuration:NUMBER.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.lab.fuzz.judging import Verdict
from tests.lab.fuzz.working import Family, Tried, inputs_of, work

CHUNK = 2_000  # inputs a process
SILENCE_S = 120.0  # after which a process hangs; an input has seconds


def main(arguments: list[str] | None = None) -> int:
    """Try everything out and print the counts; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.fuzz", description=__doc__)
    parser.add_argument("--configurations", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--environments", type=int, default=20)
    parser.add_argument("--names", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="FAMILY:NUMBER", help="show one input and what comes of it")
    options = parser.parse_args(arguments)
    if options.only:
        family, _, number = options.only.partition(":")
        return _show(family, int(number), options.seed)
    started = time.monotonic()
    counts: dict[str, Counter[str]] = {}
    findings = []
    wanted: dict[Family, int] = {
        "configuration": options.configurations, "file": options.files, "model": options.models,
        "environment": options.environments, "name": options.names,
    }  # fmt: skip
    tries = (_all(family, n, options.seed) for family, n in wanted.items())
    for tried in itertools.chain(*tries):
        counts.setdefault(f"{tried.family} {tried.kind}", Counter())[tried.verdict.word] += 1
        if tried.verdict.word == "finding":
            sys.stderr.write(f"{tried.family}:{tried.number}: {tried.verdict.text}\n")
            findings.append({"input": f"{tried.family}:{tried.number}", "kind": tried.kind, "text": tried.verdict.text})
    total = sum(counts.values(), Counter())
    told = {"seed": options.seed, "seconds": round(time.monotonic() - started, 1), "outcomes": dict(total)}
    sys.stdout.write(
        json.dumps(told | {"kinds": {kind: dict(n) for kind, n in sorted(counts.items())}, "findings": findings}) + "\n"
    )
    return int(bool(findings))


def _all(family: Family, n: int, seed: int) -> Iterator[Tried]:
    start = 0
    while start < n:
        for tried in _chunk(family, seed, start, min(start + CHUNK, n)):
            yield tried
            start = tried.number + 1
        sys.stderr.write(f"{family}s: {start:,} of {n:,}\n")


def _chunk(family: Family, seed: int, start: int, stop: int) -> Iterator[Tried]:
    """What a process of its own tells, and of what it was at when it died or fell silent."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(theirs, family, seed, start, stop))
    process.start()
    theirs.close()
    number = start
    try:
        while number < stop:
            if not ours.poll(SILENCE_S):
                yield Tried(family, number, "any", Verdict("finding", f"silent for {SILENCE_S:g} s"))
                return
            yield ours.recv()
            number += 1
    except EOFError:
        process.join()
        yield Tried(family, number, "any", Verdict("finding", f"the process died (exit code {process.exitcode})"))
    finally:
        process.kill()
        process.join()


def _show(family: str, number: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        inputs = inputs_of(family, Path(folder), seed)
        made = inputs.make(number)
        verdict = inputs.try_out(made)
    shown = {"input": repr(made)[:4_000], "outcome": verdict.word, "text": verdict.text}
    sys.stdout.write(json.dumps(shown, indent=1) + "\n")
    return int(verdict.word == "finding")


if __name__ == "__main__":
    sys.exit(main())

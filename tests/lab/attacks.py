"""Attacks of the past on memory and time, made on the spot and repeated: what came of each; three minutes.

python -m tests.lab.attacks              # all, a line each
python -m tests.lab.attacks gzip readers # those whose name has one of these words

Exit code 1 if one does not end as expected. Commands run in processes of their own, with a cache of their own.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.builders import write_treebank
from tests.lab.loads import COMMAND, conditions, load, reports, slow_readers
from tests.trials.conftest import save_tiny_model


class Attack(NamedTuple):
    """What is done in an empty folder; what it says that came has the pattern `expected`."""

    name: str
    expected: str
    run: Callable[[Path], str]


def permafrost(folder: Path, *words: str) -> str:
    """How a command ended, what it took, and what it said last."""
    environment = os.environ | {"PERMAFROST_CACHE": str(folder / "cache"), "COLUMNS": "160"}
    began, peak = time.monotonic(), 0
    with (folder / "said.txt").open("w+") as said:
        process = psutil.Popen([COMMAND, *words], stdout=said, stderr=said, cwd=folder, env=environment)
        while process.poll() is None and time.monotonic() < began + 150:
            with contextlib.suppress(psutil.Error):
                peak = max(peak, sum(each.memory_info().rss for each in [process, *process.children(recursive=True)]))
            time.sleep(0.05)
        with contextlib.suppress(psutil.Error):
            process.kill()
        code = process.wait()
        said.seek(0)
        lines = said.read().strip().splitlines()
    return f"exit {code}, {peak >> 20} MB, {len(lines)} lines: {lines[-1] if lines else ''}"


def plan_with(folder: Path, **trial: object) -> str:
    if not (folder / "bank").exists():
        write_treebank(folder / "bank")
    asked = {"data": {"folder": str(folder / "bank")}, "max_length": 16, **trial}
    (folder / "s.yaml").write_text(json.dumps({"name": "a", "trial": asked}))
    return permafrost(folder, "plan", "--sweep", "s.yaml")


def gzip_bomb(folder: Path) -> str:
    write_treebank(folder / "bank")
    (folder / "bank" / "train.conllu").unlink()
    (folder / "bank" / "train.conllu.gz").write_bytes(gzip.compress(b"word" * (16 << 20), 1) * 128)
    return plan_with(folder)


def sparse_corpus(folder: Path) -> str:
    write_treebank(folder / "bank")
    os.truncate(folder / "bank" / "train.conllu", 20 << 30)
    return plan_with(folder)


def model(change: Callable[[Path], None]) -> Callable[[Path], str]:
    """A plan of a tiny model whose files were changed."""

    def run(folder: Path) -> str:
        change(save_tiny_model("bert", folder / "model"))
        return plan_with(folder, model={"folder": str(folder / "model")})

    return run


ATTACKS = (
    Attack("twenty reports that nobody waits for", "^within", load(reports)),
    Attack("300 slow readers of a bundle", "^within", load(slow_readers)),
    Attack("20,000 conditions on the grid", "^within", load(conditions)),
    Attack("gzip of 8 MB with 8 GB in it", "^exit 3, .*(over 100 times its size|more than the .* that fit)", gzip_bomb),
    Attack("a sparse corpus of 20 GB", "^exit 3, .*(more than the .* that fit|zero bytes)", sparse_corpus),
    Attack("a tokenizer of 200 MB", "^exit 3, .*larger than", model(
        lambda path: os.truncate(path / "tokenizer.json", 200 << 20))),
)  # fmt: skip


def main(words: list[str]) -> int:
    """Run the attacks whose name has one of the words, or all; 1 if one does not end as expected."""
    failed = 0
    for attack in ATTACKS:
        if not words or any(word in attack.name for word in words):
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="attack-") as folder:
                inside = Path(folder) / "a" / "b"
                inside.mkdir(parents=True)
                came = attack.run(inside)
            held = re.search(attack.expected, came, re.DOTALL) is not None
            failed += not held
            line = f"{'held' if held else 'FAILED'}: {attack.name}: {came} ({time.monotonic() - began:.1f} s)\n"
            sys.stdout.write(line)
            sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

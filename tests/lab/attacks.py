"""Attacks of the past, made on the spot and repeated: what came of each, and how long it took; three minutes.

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

from orchestrator.store import open_store
from orchestrator.store.schema import stamped
from tests.builders import make_spec, write_treebank
from tests.dashboards.stores import specs, write_store
from tests.lab.loads import COMMAND, SHIPPED, conditions, load, reports, slow_readers
from tests.orchestrator.storage.test_access import DROP_CAPABILITIES, OTHER
from tests.orchestrator.store.rows import complete
from tests.trials.conftest import save_tiny_model

_AS_OTHER = ("setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", *DROP_CAPABILITIES[1:])


class Attack(NamedTuple):
    """What is done in an empty folder; what it says that came has the pattern `expected`."""

    name: str
    expected: str
    run: Callable[[Path], str]


def permafrost(folder: Path, *words: str, before: tuple[str, ...] = (), **variables: str) -> tuple[int, str]:
    """The exit code of a command, and in short what it took and said last."""
    environment = os.environ | {"PERMAFROST_CACHE": str(folder / "cache"), "COLUMNS": "160"} | variables
    began, peak = time.monotonic(), 0
    with (folder / "said.txt").open("w+") as said:
        process = psutil.Popen([*before, COMMAND, *words], stdout=said, stderr=said, cwd=folder, env=environment)
        while process.poll() is None and time.monotonic() < began + 150:
            with contextlib.suppress(psutil.Error):
                peak = max(peak, sum(each.memory_info().rss for each in [process, *process.children(recursive=True)]))
            time.sleep(0.05)
        with contextlib.suppress(psutil.Error):
            process.kill()
        code = process.wait()
        said.seek(0)
        lines = said.read().strip().splitlines()
    return code, f"exit {code}, {peak >> 20} MB, {len(lines)} lines: {lines[-1] if lines else ''}"


def store_of(folder: Path) -> Path:
    """A store of a sweep of one trial, with predictions of another."""
    store = write_store(folder / "store", specs(seeds=[0], train_sizes=[200])[:1], sweep="tiny")
    complete(store, make_spec())
    return folder / "store"


def escape(folder: Path) -> str:
    store = store_of(folder)
    (plan,) = (store / "sweeps" / "tiny").iterdir()
    content = json.dumps(json.loads(plan.read_text()) | {"name": "../../ESCAPED", "source": "../../ESCAPED"}).encode()
    plan.unlink()
    (plan.parent / stamped("plan", 1, content, "json")).write_bytes(content)
    code, _ = permafrost(folder, "report", str(store))
    return f"exit {code}, {len([*folder.parents[1].rglob('*ESCAPED*')])} files outside"


def browser(folder: Path) -> str:
    sleeper = folder / "sleeper"
    sleeper.write_text("#!/bin/sh\nsleep 600\n")
    sleeper.chmod(0o755)
    figure = ("export", "figure", "depth-strip", "--store", str(SHIPPED), "-o", "figure.pdf")
    paths = ("/bin/false", str(sleeper))
    return f"exit codes {[permafrost(folder, *figure, PERMAFROST_CHROMIUM=path)[0] for path in paths]}"


def other_user(folder: Path) -> str:
    if os.geteuid():
        return "exit codes [3, 3]: not tried, as only root can be another user"
    store = store_of(folder)
    for path in (folder.parents[1], folder.parent, folder, store):
        path.chmod(0o777)
    (store / "sweeps").chmod(0o700)
    commands = (("store", "verify", "--store", str(store)), ("export", "store", "copy", "--store", str(store)))
    return f"exit codes {[permafrost(folder, *words, before=_AS_OTHER)[0] for words in commands]}"


def infinity(folder: Path) -> str:
    store = store_of(folder)
    complete(open_store(store), make_spec(), attempt=2, best_score=float("inf"))
    codes = permafrost(folder, "answer", str(store))[0], permafrost(folder, "store", "verify", "--store", str(store))[0]
    return f"exit codes of answer and verify {codes}, names {make_spec().trial_id in (folder / 'said.txt').read_text()}"


def predictions(folder: Path) -> str:
    store = store_of(folder)
    for part in (store / "predictions").iterdir():
        part.unlink()
    return permafrost(folder, "store", "verify", "--store", str(store))[1]


def plan_with(folder: Path, **trial: object) -> str:
    if not (folder / "bank").exists():
        write_treebank(folder / "bank")
    asked = {"data": {"folder": str(folder / "bank")}, "max_length": 16, **trial}
    (folder / "s.yaml").write_text(json.dumps({"name": "a", "trial": asked}))
    return permafrost(folder, "plan", "--sweep", "s.yaml")[1]


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
    Attack("a plan named ../../ESCAPED", "^exit [1-5], 0 files", escape),
    Attack("a browser that does not start, or sleeps", r"\[3, 3\]", browser),
    Attack("twenty reports that nobody waits for", "^within", load(reports)),
    Attack("300 slow readers of a bundle", "^within", load(slow_readers)),
    Attack("20,000 conditions on the grid", "^within", load(conditions)),
    Attack("gzip of 8 MB with 8 GB in it", "^exit 3, .*(over 100 times its size|more than the .* that fit)", gzip_bomb),
    Attack("a sparse corpus of 20 GB", "^exit 3, .*(more than the .* that fit|zero bytes)", sparse_corpus),
    Attack("a tokenizer of 200 MB", "^exit 3, .*larger than", model(
        lambda path: os.truncate(path / "tokenizer.json", 200 << 20))),
    Attack("a store of another user", r"\[3, 3\]", other_user),
    Attack("a score of infinity", r"\(0, 1\), names True", infinity),
    Attack("a store at no path", "^exit 2, .* 1 lines", lambda folder: permafrost(folder, "status", "x" * 5_000)[1]),
    Attack("deleted predictions", "^exit 1, .*Predictions of 1 trial are lost", predictions),
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

"""Our launch under harm: the same command until it ends well, `store verify` and `repair` where a part was spoiled."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from orchestrator.extras.store_care.check import check_store
from orchestrator.store import open_store
from tests.lab.chaos import compare
from tests.lab.chaos.cluster import base_environment
from tests.lab.chaos.compare import Tables
from tests.lab.chaos.subject import Verdict


class Ours:
    """`permafrost launch` of one sweep into one store."""

    def __init__(self, sweep: Path, folder: Path, disk: Path, expected: Tables | None) -> None:
        """`expected` is None for the uninterrupted run itself."""
        self.store = disk / "store"
        self._sweep, self._folder, self._expected = sweep, folder, expected
        self._finished: dict[str, int] = {}
        self._spared: set[str] = set()
        self._spoiled: dict[Path, bytes] = {}
        self._undetected = 0
        self._without_predictions: set[str] = set()  # as `repair` says, which keeps such trials

    def command(self, cluster: str) -> list[str]:
        """The launch, which is also how one goes on."""
        return [
            sys.executable, "-m", "orchestrator.launch", "--sweep", str(self._sweep), "--store", str(self.store),
            "--cluster", cluster, "--offline",
        ]  # fmt: skip

    def n_rows(self) -> int:
        """Epoch rows in the store."""
        return compare.count_rows(self.store)

    def parts(self) -> list[Path]:
        """The parts of all tables."""
        return compare.parts_of(self.store)

    def spoil(self, part: Path, change: Mapping[int, bytes] | int) -> None:
        """Change a part where it lies; its trials may run again."""
        self._spared |= set(pq.read_table(part, columns=["trial_id"], partitioning=None)["trial_id"].to_pylist())
        content = bytearray(part.read_bytes())
        if isinstance(change, int):
            del content[change:]
        else:
            for place, new in change.items():
                content[place : place + len(new)] = new
        part.write_bytes(content)
        self._spoiled[part] = bytes(content)

    def heal(self) -> list[str]:
        """Verify after a part was spoiled, and repair what is found."""
        left = {part for part, content in self._spoiled.items() if part.exists() and part.read_bytes() == content}
        self._spoiled.clear()
        if not left:
            return []
        problems = store_tool("verify", self.store, self._folder)
        if not problems:
            self._undetected += len(left)
            return []
        repaired = store_tool("repair", self.store, self._folder)
        self._without_predictions.update(check_store(self.store).losses)
        return [f"verify: {problems[-1]}", *repaired]

    def interrupted(self) -> None:
        """Note what the store has as completed."""
        for trial_id, attempt in compare.finished(self.store).items():
            self._finished.setdefault(trial_id, attempt)

    def judge(self) -> Verdict:
        """The store against that of the uninterrupted run."""
        newest = compare.attempts(self.store)
        again = [t for t, attempt in self._finished.items() if newest.get(t, 0) > attempt and t not in self._spared]
        verdict = Verdict(
            finished_again=len(again),
            lost_intervals=compare.lost_intervals(self.store, self._spared),
            unsound=store_tool("verify", self.store, self._folder),
            undetected=self._undetected,
        )
        if self._expected is not None:
            expected = compare.without_predictions(self._expected, self._without_predictions)
            verdict.note(compare.compare(expected, compare.read_rows(open_store(self.store))))
        return verdict


def store_tool(word: str, store: Path, folder: Path) -> list[str]:
    """`permafrost store verify` (what it complains of) or `repair` (what it did); a line each."""
    apply = ["--apply"] if word == "repair" else []
    words = [str(Path(sys.executable).with_name("permafrost")), "store", word, "--store", str(store), "--json", *apply]
    done = subprocess.run(words, cwd=folder, env=base_environment(folder), capture_output=True, text=True, check=False)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return [f"{word} ended with {done.returncode}: {done.stderr.strip()[-500:]}"]
    if word == "verify":
        return [" ".join(map(str, one.values())) for one in told["findings"]] if done.returncode else []
    return [f"repair ended with {done.returncode}: {len(told['files'])} files and {len(told['trials'])} trials moved"]

"""`choose` on corpora of a few hundred examples: a curve first, then a decision or what it takes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboards.cli import app
from orchestrator.search.depth_search import Depths
from orchestrator.store import open_store
from orchestrator.store.stored_specs import planned_specs
from tests.own_corpora import KINDS
from trials.state import State

pytestmark = pytest.mark.slow
SHARED = Path(os.environ.get("PERMAFROST_SHARED", Path(__file__).parents[3] / "shared")) / "data"
OTHERS = {"kazakh": SHARED / "KazNERD" / "IOB2_valid.txt", "german": SHARED / "UD_German-GSD" / "de_gsd-ud-dev.conllu"}
MOST_LINES = 6_000
MIN_SEEDS = 3


def first_sentences(source: Path, folder: Path) -> Path:
    """A folder with the first few hundred sentences of a file, in a file of the same suffix."""
    lines = source.read_text(encoding="utf-8").splitlines()[:MOST_LINES]
    last = max(n for n, line in enumerate(lines) if not line.strip())
    folder.mkdir()
    (folder / f"train{source.suffix}").write_text("\n".join(lines[: last + 1]) + "\n", encoding="utf-8")
    return folder


def in_order_of_ending(store: str) -> Iterator[tuple[str, int]]:
    """The freeze and the seed of each completed trial."""
    rows = open_store(store).trials(["trial_id", "state", "time"]).sort_by("time").to_pylist()
    (plan,) = open_store(store).sweeps()
    specs = {spec.trial_id: spec for spec in planned_specs(plan)}
    ended = (specs[row["trial_id"]] for row in rows if row["state"] == State.COMPLETED)
    yield from ((spec.freeze.label, spec.seed) for spec in ended)


@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
def test_a_curve_comes_first_then_a_decision_or_what_it_takes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if kind in OTHERS and not OTHERS[kind].exists():
        pytest.skip(f"{OTHERS[kind]} is not on this machine")
    data = KINDS[kind](tmp_path / kind) if kind in KINDS else first_sentences(OTHERS[kind], tmp_path / kind)
    words = ["choose", data.name, "--max-hours", "0.05", "--cluster", "inline", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 143), done.output
    found: dict[str, Any] = json.loads(done.stdout)
    (plan,) = open_store("results").sweeps()
    labels = [next(iter(seeds.values())).freeze.label for seeds in Depths.of(planned_specs(plan)).freezes]
    curve = {"none", *(labels[i] for i in (0, 2, 4, 6))}
    first = list(in_order_of_ending("results"))[: MIN_SEEDS * len(curve)]  # as many as the machine had time for
    seed_by_seed = [[label for label, _ in each] for _, each in groupby(first, key=lambda trial: trial[1])]
    assert all(sorted(each) == sorted(curve) for each in seed_by_seed[:-1]), (
        "a curve of all depths comes before all else"
    )
    assert all(set(each) <= curve and len(set(each)) == len(each) for each in seed_by_seed[-1:])
    assert [answer["decided"] for answer in found["answers"]] == [True] or found["next"], done.output

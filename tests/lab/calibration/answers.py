"""The same worlds through the code that people run: a store goes in, `permafrost answer`'s objects come out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from orchestrator.analysis.answer import Answer, answers
from orchestrator.analysis.rows import ROUNDING
from orchestrator.store import ResultStore, open_store
from orchestrator.store.evidence import evidence
from orchestrator.store.schema import TABLES
from tests.builders import make_spec
from tests.lab.calibration.measure import LOOKS, MOST, TOLERANCE, World
from tests.lab.calibration.worlds import Floats
from trials.spec import TrialSpec

BATCH = 50  # sweeps in a store
BASELINE, CONSTANT = 0.9, 0.75  # scores of the baseline's sentences, and of a run that learned nothing
CHAINS = (("first_k", (0, 1), False), ("last_k", (4, 5), False), ("first_k", (0, 1), True), ("last_k", (4, 5), True))


class AnswerRates(NamedTuple):
    """Shares of sweeps.

    Attributes:
        n: Seeds of each sweep; 0 for looks at every number of them from 3 to 10.
        covered: The interval of a setting alone holds the true loss.
        wrong: Any setting is recommended where all truly lose just more than the tolerance.
        power: A setting is recommended where none loses anything.
    """

    n: int
    covered: float
    wrong: float
    power: float


def measure_answers(world: World, sweeps: int, seed: int, chains: int = 1) -> list[AnswerRates]:
    """Rates at 3, 5 and 10 seeds fixed beforehand, and for looking at every number from 3 to 10."""
    rng = np.random.default_rng(seed)
    found = [_of_batch(world, rng, min(BATCH, sweeps - start), chains) for start in range(0, sweeps, BATCH)]
    covered, wrong, power = (np.concatenate(each, axis=1).mean(axis=1) for each in zip(*found, strict=True))
    return [AnswerRates(n, *map(float, row)) for n, *row in zip((3, 5, 10, 0), covered, wrong, power, strict=True)]


def _of_batch(world: World, rng: np.random.Generator, sweeps: int, chains: int) -> tuple[Floats, Floats, Floats]:
    """(3, 5, 10 seeds and looks; sweeps) whether the interval covered, an answer was wrong, one was found."""
    drawn = [world.draw(rng, sweeps, MOST) for _ in range(chains)]
    losses, collapsed = (np.concatenate([each[place][:, :1] for each in drawn], axis=1) for place in (0, 1))
    chosen, covered = [], np.ones((4, sweeps))
    for truth in (TOLERANCE + 2 * ROUNDING + 1e-6, 0.0):
        with tempfile.TemporaryDirectory() as folder:
            store, specs = write(Path(folder), losses + truth, collapsed)
            fixed = [_answers(store, specs, n, most=n) for n in (3, 5, 10)]
            looks = [_answers(store, specs, n, most=None) for n in range(LOOKS.first, MOST + 1)]
        recommended = [[each.recommendation.cell is not None for each in of_n] for of_n in (*fixed, *looks)]
        chosen.append(np.array([*recommended[:3], np.any(recommended[3:], axis=0)], dtype=np.float64))
        covered[:3] = [[_covers(each, truth) for each in of_n] for of_n in fixed]
        covered[3] = [_covers(each, truth) for each in looks[-1]]
    return covered, chosen[0], chosen[1]


def _answers(store: ResultStore, specs: Sequence[TrialSpec], n: int, most: int | None) -> list[Answer]:
    trials = evidence(store, [spec for spec in specs if spec.seed < n])
    found = answers(trials.frame, trials.specs, 100 * TOLERANCE, most_seeds=most, saving="trainable_params")
    return sorted(found, key=lambda answer: answer.corpus)


def _covers(answer: Answer, truth: float) -> bool:
    row = answer.recommendation.candidates.iloc[0]
    return not (row["low"] > truth or row["high"] < truth)


def write(folder: Path, losses: Floats, collapsed: np.ndarray) -> tuple[ResultStore, list[TrialSpec]]:
    """A store of (sweeps, settings, seeds, sentences) losses, each setting a chain of its own, and its trials."""
    store = open_store(folder / "store", must_exist=False)
    store.create()
    specs, trials, contributions = [], [], []
    settings = [("none", (), False), *CHAINS[: losses.shape[1]]]
    for sweep in range(len(losses)):
        data = {"name": f"world {sweep:04}", "fingerprint": f"{sweep:064x}"}
        base = make_spec(data=data, freeze={"strategy": "none"})
        for place, (strategy, layers, embeddings) in enumerate(settings):
            freeze = base.freeze.model_copy(update={"strategy": strategy, "layers": layers, "embeddings": embeddings})
            for seed in range(losses.shape[2]):
                spec = base.model_copy(update={"freeze": freeze, "seed": seed})
                loss = losses[sweep, place - 1, seed] if place else np.zeros(losses.shape[3])
                lost = bool(place and collapsed[sweep, place - 1, seed])
                specs.append(spec)
                trials.append(_row(spec, place, BASELINE - float(loss.mean()), lost))
                key = {"trial_id": spec.trial_id, "attempt": 1, "split": "dev"}
                contributions.append({**key, "values": (BASELINE - loss).tolist()})
    for table, rows in (("contributions", contributions), ("trials", trials)):
        store._parts[table].append_table(pa.Table.from_pylist(rows, schema=TABLES[table]))
    return store, specs


def _row(spec: TrialSpec, place: int, score: float, lost: bool) -> dict[str, Any]:
    return {
        "trial_id": spec.trial_id,
        "attempt": 1,
        "state": "completed",
        "best_score": score,
        "constant_score": CONSTANT if lost else 0.1,
        "loss_fall": 0.0 if lost else 0.9,
        "trainable_params": 1000 - place,
        "total_params": 2000,
        "train_s": 1.0,
        "prefix_s": 0.0,
    }

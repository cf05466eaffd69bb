"""The same promises through what people run: frames of trials go in, what `answer` says comes out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from orchestrator.analysis.decide import Decision, decide
from orchestrator.analysis.decision_plan import ERROR, DecisionPlan
from orchestrator.analysis.rows import Floats
from orchestrator.analysis.wording import answer_words
from tests.lab.calibration.measure import LOOKS, MOST, TOLERANCE, Bools, Figure, bound_holds
from trials.spec import FreezeSpec

BASELINE = 0.9  # score
FALL = 0.3  # of a run that collapses
BAD, BAD_LOSS = 0.05, 0.15  # share of bad seeds, and what they lose
HAIR = 1e-6
# The fewest seeds are planned, by which most of the error is spent, and more are added.
PLAN = DecisionPlan(tolerance=100 * TOLERANCE, cost="trainable_params", min_saving=0.0, most_seeds=LOOKS[0])


def frame_of(losses: Floats, collapsed: Bools | None = None) -> pd.DataFrame:
    """Trials of a question from losses (settings, seeds) of whole seeds."""
    rows = []
    for place in range(len(losses) + 1):
        freeze = FreezeSpec(strategy="first_k", layers=tuple(range(place)), embeddings=False)
        for seed in range(losses.shape[1]):
            rows.append({
                "cell": str(place), "baseline": "0", "group": "", "freeze_spec": freeze,
                "n_layers": 12, "seed": seed, "state": "completed",
                "score": BASELINE - (losses[place - 1, seed] if place else 0.0),
                "collapsed": float(bool(place and collapsed is not None and collapsed[place - 1, seed])),
                "trainable_params": 100.0 - place,
            })  # fmt: skip
    return pd.DataFrame(rows)


def collapsing(sweeps: int, seed: int) -> Iterator[Figure]:
    """A share of the runs falls by 30 points, the others lose nothing: over all runs it loses 3 to 12."""
    for share in (0.1, 0.2, 0.4):
        rng = np.random.default_rng(seed)
        seen, unseen = np.zeros((2, sweeps), dtype=bool)
        for sweep in range(sweeps):
            collapsed = rng.random((1, MOST)) < share
            losses = 0.003 * rng.standard_normal((1, MOST)) + FALL * collapsed
            for n in LOOKS:
                if _found(losses[:, :n], collapsed[:, :n]).choice is not None:
                    seen[sweep], unseen[sweep] = collapsed[:, :n].any(), not collapsed[:, :n].any()
                    break
        name = f"{100 * share:g} % collapse"
        yield Figure(name, "recommended after a collapse was seen", float(seen.mean()), ERROR, sweeps)
        none = (1 - share) ** LOOKS[0]
        yield Figure(name, "recommended while none was (no method sees it)", float(unseen.mean()), none, sweeps)
    losses = 0.003 * np.random.default_rng(seed).standard_normal((1, 10))
    four = np.arange(10)[None] < 4
    wrong = _found(losses + FALL * four, four).choice is not None
    yield Figure("4 of 10 collapse, 0 of 10", "recommended", float(wrong), 0.0, 1)
    for n in (10, 40):
        holds = bound_holds(4000, seed, n)
        yield Figure("10 % collapse", f"the bound holds, {n} runs", holds, 1 - ERROR, 4000, at_most=False)


def bad_seeds(sweeps: int, seed: int) -> Iterator[Figure]:
    """5 % of the seeds lose 15 points and do not collapse; with the others the mean is just beyond the tolerance."""
    rng = np.random.default_rng(seed)
    seen, unseen, silent = np.zeros((3, sweeps), dtype=bool)
    for sweep in range(sweeps):
        bad = rng.random((1, MOST)) < BAD
        usual = TOLERANCE + HAIR - BAD * BAD_LOSS
        losses = usual + BAD_LOSS * bad + 0.003 * rng.standard_normal((1, MOST))
        for n in LOOKS:
            found = _found(losses[:, :n])
            if found.choice is not None:
                seen[sweep], unseen[sweep] = bad[:, :n].any(), not bad[:, :n].any()
                silent[sweep] = "Bad runs that are rare" not in answer_words(found).sentence
                break
    yield Figure("5 % lose 15 points", "recommended after one was seen", float(seen.mean()), ERROR, sweeps)
    none = (1 - BAD) ** LOOKS[0]
    unseen_share = float(unseen.mean())
    yield Figure("5 % lose 15 points", "recommended while none was (no method sees it)", unseen_share, none, sweeps)
    yield Figure("5 % lose 15 points", "recommended without saying so", float(silent.mean()), 0.0, sweeps)


def _found(losses: Floats, collapsed: Bools | None = None) -> Decision:
    return decide(frame_of(losses, collapsed), PLAN)

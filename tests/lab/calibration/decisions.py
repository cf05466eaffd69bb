"""The same promises through what people run: frames of trials go in, what `answer` and `choose_depth` say comes out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from orchestrator.analysis.decide import decide
from orchestrator.analysis.decided import Decided
from orchestrator.analysis.decision_plan import ERROR, DecisionPlan
from orchestrator.analysis.wording import answer_sentence
from orchestrator.search.choose_depth import DepthGoal
from orchestrator.search.choose_depth import answer as answer_depth
from tests.lab.calibration.measure import LOOKS, TOLERANCE, Figure, bound_holds
from tests.lab.calibration.worlds import Documents, Floats

BASELINE = 0.9  # score
FALL = 0.3  # of a run that collapses
BAD, BAD_LOSS = 0.05, 0.15  # share of bad seeds, and what they lose
HAIR = 1e-6
PLAN = DecisionPlan(tolerance=100 * TOLERANCE, cost="trainable_params", min_saving=0.0)


def frame_of(losses: Floats, collapsed: np.ndarray | None = None, documents: np.ndarray | None = None) -> pd.DataFrame:
    """Trials of a question from losses (settings, seeds, sentences), or (settings, seeds, 1) of whole seeds."""
    rows = []
    for place in range(len(losses) + 1):
        for seed in range(losses.shape[1]):
            values = BASELINE - (losses[place - 1, seed] if place else np.zeros(losses.shape[2]))
            rows.append({
                "cell": str(place), "baseline": "0", "group": "", "freeze": f"first {place}" if place else "none",
                "n_layers": 12, "seed": seed, "state": "completed", "score": values.mean(),
                "sentences": values if len(values) > 1 else None, "documents": documents,
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
            collapsed = rng.random((1, LOOKS.most)) < share
            losses = 0.003 * rng.standard_normal((1, LOOKS.most, 1)) + FALL * collapsed[..., None]
            for n in range(LOOKS.first, LOOKS.most + 1):
                chosen = _found(losses[:, :n], collapsed[:, :n]).chosen is not None
                seen[sweep] |= chosen and collapsed[:, :n].any()
                unseen[sweep] |= chosen and not collapsed[:, :n].any()
        name = f"{100 * share:g} % collapse"
        yield Figure(name, "recommended after a collapse was seen", float(seen.mean()), ERROR, sweeps)
        none = (1 - share) ** LOOKS.first
        yield Figure(name, "recommended while none was (no method sees it)", float(unseen.mean()), none, sweeps)
    losses = 0.003 * np.random.default_rng(seed).standard_normal((1, 10, 1))
    four = np.arange(10)[None] < 4
    wrong = _found(losses + FALL * four[..., None], four).chosen is not None
    yield Figure("4 of 10 collapse, 0 of 10", "recommended", float(wrong), 0.0, 1)
    for n in (10, 40):
        holds = bound_holds(4000, seed, n)
        yield Figure("10 % collapse", f"the bound holds, {n} runs", holds, 1 - ERROR, 4000, at_most=False)


def bad_seeds(sweeps: int, seed: int) -> Iterator[Figure]:
    """5 % of the seeds lose 15 points and do not collapse; with the others the mean is just beyond the tolerance."""
    rng = np.random.default_rng(seed)
    seen, unseen, silent = np.zeros((3, sweeps), dtype=bool)
    for sweep in range(sweeps):
        bad = rng.random((1, LOOKS.most)) < BAD
        usual = TOLERANCE + HAIR - BAD * BAD_LOSS
        losses = usual + BAD_LOSS * bad[..., None] + 0.003 * rng.standard_normal((1, LOOKS.most, 1))
        for n in range(LOOKS.first, LOOKS.most + 1):
            found = _found(losses[:, :n])
            seen[sweep] |= found.chosen is not None and bad[:, :n].any()
            unseen[sweep] |= found.chosen is not None and not bad[:, :n].any()
            silent[sweep] |= found.chosen is not None and "Bad runs that are rare" not in answer_sentence(found)
    yield Figure("5 % lose 15 points", "recommended after one was seen", float(seen.mean()), ERROR, sweeps)
    none = (1 - BAD) ** LOOKS.first
    unseen_share = float(unseen.mean())
    yield Figure("5 % lose 15 points", "recommended while none was (no method sees it)", unseen_share, none, sweeps)
    yield Figure("5 % lose 15 points", "recommended without saying so", float(silent.mean()), 0.0, sweeps)


def two_ways_to_ask(sweeps: int, seed: int) -> Iterator[Figure]:
    """`choose_depth` and `answer` on the same losses of three depths, by document."""
    rng, differ = np.random.default_rng(seed), 0
    for _ in range(sweeps):
        n, true = int(rng.choice([3, 5, 8])), rng.choice([0.0, 0.005, 0.015], (3, 1, 1))
        world = Documents(int(rng.choice([8, 40])), 0.1, n_sentences=200)
        drawn = world.draw(rng, 3, n)
        assert drawn.plain is not None
        assert isinstance(drawn.sizes, np.ndarray)
        documents = np.repeat(np.arange(len(drawn.sizes)), drawn.sizes.astype(np.int64))
        of_answer = _found(drawn.plain[:, 0] + true, documents=documents).table
        losses = [dict(enumerate(each[0] + shift[0])) for each, shift in zip(drawn.losses, true, strict=True)]
        goal = DepthGoal(PLAN, n)
        of_search = answer_depth(goal, losses, range(n), [0.1, 0.2, 0.3], drawn.sizes).known
        same = [a == b.verdict for a, b in zip(of_answer["verdict"], of_search, strict=True)]
        ends = np.array([(each.low, each.high) for each in of_search])
        ends = np.where(np.isinf(ends), np.nan, ends)  # no interval
        differ += not (all(same) and np.allclose(ends, of_answer[["low", "high"]], atol=1e-9, equal_nan=True))
    yield Figure("choose_depth against answer", "another interval or verdict", differ / sweeps, 0.0, sweeps)


def _found(losses: Floats, collapsed: np.ndarray | None = None, documents: np.ndarray | None = None) -> Decided:
    return decide(frame_of(losses, collapsed, documents), PLAN)

"""What serves as dev where it cannot decide the tolerance: a share of train, folds, or another tolerance."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from orchestrator.config.console import Say
from orchestrator.own_data.choose_options import ChooseOptions
from orchestrator.own_data.question import SEEDS, Question
from orchestrator.own_data.sweep_file import SweepFile
from orchestrator.sweeps.dev_resolution import dev_note, resolved

HOLD_OUT, FOLDS = 0.3, 5  # of train, where dev is too small for the tolerance


def agreed(asked: ChooseOptions, question: Question, folder: Path, say: Say) -> ChooseOptions:
    """The options, which a person may change on reading that dev cannot decide the tolerance.

    With nobody to ask they stay as they are, and a note says so.
    """
    task, data = question.corpus.task, question.corpus.spec
    share = worth_holding_out(question)
    note = dev_note(task, data, asked.tolerance, SEEDS, share)
    if note is None or SweepFile(folder / f"{question.name}.yaml").asks(asked.question):
        return asked
    say(f"note    {note}")
    tolerance = math.ceil(2 * min(resolved(task, data, SEEDS), 100)) / 2
    ways = {f"--tolerance {tolerance:g}": replace(asked, tolerance=tolerance)} if tolerance < 100 else {}
    if share is not None:
        ways |= {f"--held-out {share:g}": replace(asked, held_out=share)} if asked.held_out is None else {}
        ways |= {f"--folds {FOLDS}": replace(asked, held_out=None, folds=FOLDS)}
    if asked.ask is None:
        say(f"note    continuing with what was given{'; other ways: ' + ', '.join(ways) if ways else ''}.")
        return asked
    picked = asked.ask("Go on with that, or with another tolerance or dev split?", ["go on", *ways])
    return ways.get(picked, asked)


def worth_holding_out(question: Question) -> float | None:
    """The share of train that would serve better as dev; None where it is no larger, or dev is fixed, or folds."""
    data = question.corpus.spec
    assert data.sizes is not None
    n_train, n_dev, _ = data.sizes
    is_fixed = data.folds is not None or (
        data.held_out is None and (data.source is not None or "bundled" in question.corpus.data)
    )
    return HOLD_OUT if not is_fixed and HOLD_OUT * (n_train + n_dev) > 1.5 * n_dev else None

"""The work that the harms are done to, and what comes of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.builders import write_sweep, write_tagged_treebank
from tests.lab.chaos.compare import Difference

N_TRIALS, N_EPOCHS = 8, 4
N_ROWS = N_TRIALS * N_EPOCHS

_SWEEP = """
name: chaos
trial:
  data: {{folder: {bank}}}
  lowercase: true
  frozen_dropout: false
  optim: {{lr: 1e-3, epochs: {epochs}, batch_size: 8}}
space:
  freeze: [{freeze}]
seeds: {seeds}
checkpoint: {{epochs: 1}}
"""


def write_work(
    folder: Path,
    *,
    train: int = 200,
    epochs: int = N_EPOCHS,
    seeds: int = N_TRIALS // 2,
    freeze: str = "none, {strategy: first_k, depth: 2, embeddings: true}",
) -> Path:
    """A sweep of trials of a second or two of the starter model, each kept at every epoch; the path of its file."""
    bank = write_tagged_treebank(folder / "bank", train=train, dev=16, test=16)
    text = _SWEEP.format(bank=bank, epochs=epochs, seeds=list(range(seeds)), freeze=freeze)
    return write_sweep(folder / "chaos.yaml", text)


@dataclass
class Verdict:
    """What one run of harms came to, counted in trials and rows.

    Attributes:
        finished_again: Trials whose last row had been read from the results and that ran again all the same.
        lost_intervals: The most evaluations that a trial had to do again after one interruption.
        missing: Rows that the uninterrupted run has and this one has not.
        duplicate: Rows that are there twice.
        different: Rows with another number in them.
        surplus: Rows that the uninterrupted run has not.
        unsound: What the results' own check, or a reader, complains of in the end.
        undetected: Damaged files that nothing noticed.
    """

    finished_again: int = 0
    lost_intervals: int = 0
    missing: int = 0
    duplicate: int = 0
    different: int = 0
    surplus: int = 0
    unsound: list[str] = field(default_factory=list)
    undetected: int = 0

    def note(self, found: Difference) -> None:
        """Take over what differs from the uninterrupted run."""
        self.missing, self.surplus = found.missing, found.surplus
        self.different, self.duplicate = found.different, found.duplicate
        self.unsound += found.examples

    def ok(self, *, most_lost: int | None = 1) -> bool:
        """Whether nothing was lost, doubled or done again beyond what is promised."""
        counted = (self.finished_again, self.missing, self.duplicate, self.different, self.surplus, self.undetected)
        return not any(counted) and not self.unsound and (most_lost is None or self.lost_intervals <= most_lost)

"""A pilot trains a few steps and says what memory that took."""

from __future__ import annotations

from tests.trials.conftest import TrialMaker
from trials.hardware.device import resident_bytes
from trials.run import footprint


def test_on_a_cpu_the_footprint_is_the_peak_of_the_process(make_trial: TrialMaker) -> None:
    found = footprint(make_trial())
    assert 0.9 * resident_bytes() < found.used_bytes < found.total_bytes


def test_a_split_smaller_than_a_batch_is_no_hindrance(make_trial: TrialMaker) -> None:
    assert footprint(make_trial(train_size=2, optim={"batch_size": 64, "epochs": 1})).used_bytes > 0

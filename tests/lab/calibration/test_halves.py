"""The intervals of half of the shipped trials against the other half; test_page.py holds those of all of them."""

from __future__ import annotations

import pytest

from tests.lab.calibration.halves import WAYS, halves
from tests.lab.calibration.shipped import shipped


@pytest.mark.slow  # a simulation on all shipped trials; test_ledger has what they must be like
def test_losses_of_the_other_half_are_beyond_an_end_no_more_often_than_promised() -> None:
    found = list(halves(shipped()[::5], halvings=2))
    assert [figure.world for figure in found[::2]] == [f"halves: {way}" for way in WAYS]
    assert [str(figure) for figure in found if figure.missed] == []

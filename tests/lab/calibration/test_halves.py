"""The intervals of half of the shipped trials against the other half."""

from __future__ import annotations

from tests.lab.calibration.halves import ALONE, halves
from tests.lab.calibration.shipped import shipped


def test_losses_of_the_other_half_are_beyond_an_end_no_more_often_than_promised() -> None:
    found = list(halves(shipped(), halvings=2))
    assert [str(figure) for figure in found if figure.missed] == []
    assert all(figure.share < 0.05 for figure in found if ALONE not in figure.world)

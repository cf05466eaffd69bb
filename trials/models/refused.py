"""Families whose layers cannot be frozen one by one, with the reason for the error message."""

from __future__ import annotations

from trials.models.family import REFUSED

REFUSED["albert"] = "all of ALBERT's layers share one set of weights, so freezing one freezes them all"
